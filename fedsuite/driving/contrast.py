"""What can be chosen of the contrastive terms (fedsuite.driving.training.contrastive says what each choice means)."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from fedsuite.driving.config import CDLConfig
from fedsuite.errors import InputError
from fedsuite.penalties import Penalty, Proximal

Kind = Literal["none", "kl", "cd_k", "kl_release"]
Space = Literal["prediction", "feature", "gaussian"]
Direction = Literal["target_first", "literal"]


@dataclass(frozen=True)
class Chain:
    """Langevin chains: steps k; rate eta, in (0, 1]; std s and limit L, unit of z; metropolis: accept or reject."""

    steps: int
    rate: float
    std: float
    limit: float
    metropolis: bool

    @property
    def draws(self) -> int:
        """Standard normal numbers that one component of one sample uses: start, steps, and acceptances."""
        return 1 + self.steps * (2 if self.metropolis else 1)


@dataclass(frozen=True)
class ContrastiveSettings:
    """Choice of the contrastive terms.

    beta: weight of L_cd+ against L_cd-; apply_beta False leaves both at 1, as the paper's update rules do.
    temperature T, direction, detach: of `kl`. detach False lets both terms reach both networks.
    chain_steps k, chain_rate eta, energy_std s, chain_samples M, angle_limit L, metropolis, chain_noise: of `cd_k`.
    In feature space the chain moves standardised features, each over [-10, 10], and s is in their unit.
    chain_noise False: one chain without noise from the other network's output.
    """

    kind: Kind = "kl"
    space: Space = "prediction"
    beta: float = 0.5
    temperature: float = 0.5
    direction: Direction = "target_first"
    apply_beta: bool = True
    detach: bool = True
    chain_steps: int = 1
    chain_rate: float = 0.5
    energy_std: float = 0.15
    chain_samples: int = 8
    angle_limit: float = 1.0
    metropolis: bool = False
    chain_noise: bool = True

    def __post_init__(self) -> None:
        for name, choices in (("kind", Kind), ("space", Space), ("direction", Direction)):
            if (value := getattr(self, name)) not in get_args(choices):
                raise InputError(
                    f"{name} = {value!r}: expected one of {', '.join(get_args(choices))}"
                )
        if not 0.0 <= self.beta <= 1.0:
            raise InputError(f"beta = {self.beta}: expected a weight in [0, 1]")
        if not 0.0 < self.chain_rate <= 1.0:
            raise InputError(f"chain-rate = {self.chain_rate}: expected a rate in (0, 1]")
        for name in ("temperature", "chain_steps", "energy_std", "chain_samples", "angle_limit"):
            if getattr(self, name) <= 0:
                raise InputError(
                    f"{name.replace('_', '-')} = {getattr(self, name)}: expected a number above 0"
                )
        self._check_combination()

    def _check_combination(self) -> None:
        if self.kind == "kl_release" and self.space != "prediction":
            raise InputError(
                f"space = {self.space!r}: kl_release compares predictions; set space = 'prediction'"
            )
        if self.kind == "cd_k" and self.space == "gaussian":
            raise InputError(
                "space = 'gaussian': cd_k is Gaussian already; set space = 'prediction' or 'feature'"
            )
        if self.kind == "cd_k" and not self.detach:
            raise InputError("detach = false: cd_k has no such form; set detach = true")
        if self.kind == "cd_k" and self.metropolis and not self.chain_noise:
            raise InputError(
                "chain-noise = false: Metropolis steps need it; set metropolis = false"
            )

    @property
    def chain(self) -> Chain:
        """The sampler of `cd_k`."""
        limit = 10.0 if self.space == "feature" else self.angle_limit
        return Chain(self.chain_steps, self.chain_rate, self.energy_std, limit, self.metropolis)


def contrastive_settings(config: CDLConfig) -> ContrastiveSettings:
    """The loss of a run."""
    own: Any = config.objective  # its texts are checked to be among ContrastiveSettings' choices
    return ContrastiveSettings(
        kind=own.loss,
        space=own.loss_space,
        beta=own.beta,
        temperature=own.temperature,
        direction=own.kl_direction,
        apply_beta=own.apply_beta,
        chain_steps=own.chain_steps,
        chain_rate=own.chain_rate,
        energy_std=own.energy_std,
        chain_samples=own.chain_samples,
        angle_limit=config.data.angle_limit,
        metropolis=own.metropolis,
    )


def penalty_of(config: CDLConfig) -> Penalty | None:
    """The local penalty of a run: FedProx's, or none."""
    return (
        Proximal(config.federation.proximal_mu) if config.federation.scenario == "fedprox" else None
    )
