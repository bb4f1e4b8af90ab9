"""Section `federation` of a CDL run: which silos there are, where they stand, and who mixes with whom, by which rule.

Overlays stand in fedsuite/driving/topology, mixing rules in fedsuite/driving/topology/robust_mixing.py.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from fedsuite.averaging.settings import AveragingSettings
from fedsuite.settings.config import setting

# Who mixes with whom. "cll" pools all data in one silo; the second group has a server; the third has none.
POOLED = "cll"
SERVER_SCENARIOS = ("fedavg", "fedprox", "star")
PEER_SCENARIOS = ("ring", "mst", "delta_mbst", "matcha", "matcha_plus", "complete", "local")
CUSTOM = "custom"


def _as_averaging(name: str) -> Any:
    """A setting of federated averaging, which run folders of before lack."""
    known = {f.name: f for f in fields(AveragingSettings)}[name]
    limits = replace(known.metadata["limits"], added=True)
    return field(default=known.default, metadata={"limits": limits})


@dataclass(frozen=True)
class FederationSettings:
    """Which silos there are, where they stand, and who mixes with whom."""

    scenario: str = setting(
        "ring", "who mixes with whom", choices=(POOLED, *SERVER_SCENARIOS, *PEER_SCENARIOS, CUSTOM)
    )
    underlay: str = setting(
        "gaia", "where silos stand; auto = the smallest of the others that has a place for each",
        choices=("gaia", "nws", "exodus", "ebone", "geant", "auto"),
    )  # fmt: skip
    underlay_file: str = setting(
        "",
        "your own network (JSON with links) or mixing matrix (CSV or JSON, N rows) instead",
        path=True,
    )
    mixing_matrix: str = setting(
        "auto",
        "A on trees: auto = metropolis; fmmc and fdla need the extra `topology`",
        choices=("auto", "metropolis", "fmmc", "fdla"),
    )
    data_weighted: bool = setting(False, "fedavg, fedprox, star: weight silos by their frames")
    proximal_mu: float = setting(0.01, "mu of fedprox", ge=0)
    matcha_budget: float = setting(0.5, "expected share of matchings that are active", gt=0, le=1)
    silos_per_client: int = setting(
        1, "silos that one Flower client holds (simulation); 0 = all of them", ge=0, le=10**5
    )
    merge: str = setting(
        "mean",
        "mixing rule: mean (weighted); those that withstand hostile silos: clipped (self-centred), trimmed-mean; or "
        "module:NAME of your own",
    )
    clip_ratio: float = setting(
        3.0,
        "rho of merge clipped: how far a neighbour may pull, in lengths of one's own local change",
        gt=0,
    )
    tolerated: int = setting(
        0, "b of merge trimmed-mean: neighbours left out at either end", ge=0, le=1000
    )
    mixings_per_round: int = setting(
        1, "mixing steps in one round, that is in one message; above 1 no neighbour may sit in another client",
        ge=1, le=10**6,
    )  # fmt: skip

    sealed: bool = setting(
        False,
        "rings and other overlays without a server: silos seal their models for their neighbours and mix themselves, so "
        "that whoever relays them sees none",
        added=True,
    )
    server_optimizer: str = _as_averaging("server_optimizer")
    server_learning_rate: float = _as_averaging("server_learning_rate")
    server_momentum: float = _as_averaging("server_momentum")
    server_second_momentum: float = _as_averaging("server_second_momentum")
    server_tau: float = _as_averaging("server_tau")
    server_bias_correction: bool = _as_averaging("server_bias_correction")
    control_variates: bool = _as_averaging("control_variates")
    share: str = _as_averaging("share")
    codec: str = _as_averaging("codec")
    secure_sum: bool = _as_averaging("secure_sum")
    secure_sum_threshold: float = _as_averaging("secure_sum_threshold")
    secure_sum_bound: float = _as_averaging("secure_sum_bound")

    @property
    def server_steps(self) -> bool:
        """Whether the server's model goes another way than to the mean."""
        return self.server_optimizer != "none" or self.server_learning_rate != 1

    @property
    def pooled(self) -> bool:
        """Whether one silo holds all data."""
        return self.scenario == POOLED
