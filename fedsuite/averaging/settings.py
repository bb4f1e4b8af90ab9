"""Settings of federated averaging, the same for every system that merges its clients' models.

A system has them as its section `federation`, or as the base of it; merge rules are in robust.py, server optimizers in
server_optimizers.py, penalties in penalties.py.
"""

from dataclasses import dataclass

from fedsuite.averaging.privacy_settings import CLIENT, PRIVACY_UNREAD, PrivacySettings
from fedsuite.settings.config import RunSettings, section, setting
from fedsuite.settings.unread import Unread, among, but

_OPTIMIZER = "federation.server-optimizer"
CHOOSES_FROM = ("step", "clients", "count")  # what participation of one's own gets
DECAYED = ("federation.server-learning-rate-decay", among(1.0))
_RUNNING_MEANS = (_OPTIMIZER, among("none", "momentum", "nesterov", "adagrad", "fedexp"))


@dataclass(frozen=True)
class AveragingSettings:
    """Who takes part, how long a client trains, and how the server merges what comes back."""

    participation_rate: float = setting(
        1.0, "r, share of the clients with examples that train in a round", gt=0, le=1
    )
    participation: str = setting(
        "seeded",
        "who takes part: drawn from the seed, or module:NAME of your own",
        added=True,
    )
    local_epochs: int = setting(1, "tau, passes over a client's examples per round", ge=1, le=10**6)
    server_learning_rate: float = setting(1.0, "eta, factor on the weighted mean delta", gt=0)
    server_learning_rate_decay: float = setting(
        1.0, "factor on eta every server-decay-steps", gt=0, le=1
    )
    server_decay_steps: int = setting(30_000, "local steps between two decays of eta", ge=1)
    group_size: int = setting(
        1,
        "clients of a chain that train one after another, chains side by side; 1 = all side by side",
        ge=1,
        le=1000,
    )
    server_optimizer: str = setting(
        "none",
        "what moves the server's model along the merged change: none (eta times it), momentum, nesterov, adam, yogi, "
        "adagrad, fedexp, or module:NAME of your own",
    )
    server_momentum: float = setting(
        0.9, "beta of momentum and nesterov, beta_1 of adam and yogi", ge=0, lt=1
    )
    server_second_momentum: float = setting(0.99, "beta_2 of adam and yogi", ge=0, lt=1)
    server_tau: float = setting(
        1e-3, "tau, added to the divisor by adam, yogi, adagrad; epsilon of fedexp", gt=0
    )
    server_bias_correction: bool = setting(
        False, "divide running means of adam and yogi by 1 - beta^t (Reddi et al. do not)"
    )
    merge: str = setting(
        "mean",
        "merge rule: mean (weighted); those that withstand hostile clients: median, trimmed-mean, krum, multi-krum, bulyan, "
        "geometric-median, fltrust, pba; or module:NAME of your own",
    )
    tolerated: int = setting(
        0, "f, hostile clients of a round that the merge rule is to withstand", ge=0, le=1000
    )
    trusted: int = setting(
        0,
        "partition of the client, with public data, that others have to agree with where merge is fltrust",
        ge=0,
        added=True,
    )
    max_share: float = setting(
        1.0, "most weight of one client in a round's merge; 1 = as its samples say", gt=0, le=1
    )
    update_bound: float = setting(
        0.0,
        "longest change, as a multiple of the round's median length, that is merged as it is; 0 = any",
        ge=0,
    )
    beyond_bound: str = setting(
        "clip",
        "a change beyond the bound is shortened to it, or left out",
        choices=("clip", "reject"),
    )
    local_penalty: str = setting(
        "none",
        "term added to a client's loss: none, proximal (FedProx), or module:NAME of your own",
    )
    penalty_strength: float = setting(0.01, "strength of the local penalty; FedProx's mu", ge=0)
    local_method: str = setting(
        "plain",
        "what a client does in a visit: plain (train what it received, send it back); with a model of its own beside it "
        "fedrep, ditto, apfl, layer-mixing; or module:NAME of your own",
        added=True,
    )
    head_steps: float = setting(
        0.5,
        "share of a visit's steps, rounded up, that fedrep trains the client's own head for",
        ge=0,
        le=1,
        added=True,
    )
    ditto_strength: float = setting(
        0.1,
        "lambda, how strongly ditto draws a client's own model to the server's; 0 = training alone",
        ge=0,
        le=1e6,
        added=True,
    )
    own_weight: float = setting(
        0.5,
        "the own model's part in what apfl (alpha) and layer-mixing (a) score, at first; 0 = the server's model",
        ge=0,
        le=1,
        added=True,
    )
    own_weight_rate: float = setting(
        0.01,
        "step size of the own model's part in apfl and layer-mixing; 0 = it stays",
        ge=0,
        le=1e6,
        added=True,
    )
    share: str = setting(
        "all",
        "what of the model travels, the rest is every client's own: all, or names of arrays and modules with commas between "
        "them; * stands for any characters, ! before a name leaves it out",
        added=True,
    )
    codec: str = setting(
        "none",
        "how the changes that clients send are made smaller: none, or module:NAME of your own",
        added=True,
    )
    secure_sum: bool = setting(
        False,
        "the server gets the weighted sum of the clients' changes, and no client's own (Bonawitz et al. 2017)",
        added=True,
    )
    secure_sum_threshold: float = setting(
        0.5,
        "more than this share of the members of a secure sum must answer to its end; what fewer know together opens nothing",
        ge=0.5,
        lt=1,
        added=True,
    )
    secure_sum_bound: float = setting(
        1.0,
        "c, largest change of a single number that a secure sum adds as it is; larger ones are cut to it",
        gt=0,
        le=1e6,
        added=True,
    )
    control_variates: bool = setting(
        False,
        "correct local gradients by c - c_k, what all clients' and the own one's are on average (SCAFFOLD)",
    )

    @property
    def remembers(self) -> bool:
        """Whether a rule of one's own may want to know what clients said last."""
        return any(":" in name for name in (self.participation, self.merge, self.server_optimizer))


@dataclass(frozen=True)
class TrainingSettings:
    """A client's own steps."""

    learning_rate: float = setting(0.1, "step size of a client's optimizer", gt=0)
    batch_size: int = setting(10, "examples per mini-batch", ge=1, le=10**6)
    local_steps: int = setting(
        0, "optimizer steps of a visit; 0 = those of federation.local-epochs", ge=0, le=10**6
    )


@dataclass(frozen=True)
class FedAvgSettings(RunSettings):
    """What a run of FedAvg has, whatever is learnt; a system adds keys of its own."""

    federation: AveragingSettings = section(AveragingSettings)
    training: TrainingSettings = section(TrainingSettings)
    privacy: PrivacySettings = section(PrivacySettings)

    def visit_steps(self, num_examples: int) -> int:
        """Optimizer steps of a client that takes part: tau passes of ceil(n_k / B) mini-batches each."""
        batches = -(-num_examples // self.training.batch_size)
        return self.training.local_steps or self.federation.local_epochs * batches


_METHOD = "federation.local-method"
_MIXING = (_METHOD, but("apfl", "layer-mixing"))
_IN_PLAIN = ("federation.secure-sum", among(False))
AVERAGING_UNREAD: Unread = {
    "federation.secure-sum-threshold": _IN_PLAIN,
    "federation.secure-sum-bound": [_IN_PLAIN, ("privacy.unit", among(CLIENT))],
    "federation.penalty-strength": ("federation.local-penalty", among("none")),
    "federation.head-steps": (_METHOD, but("fedrep")),
    "federation.ditto-strength": (_METHOD, but("ditto")),
    "federation.own-weight": _MIXING,
    "federation.own-weight-rate": _MIXING,
    "federation.server-momentum": (_OPTIMIZER, among("none", "adagrad", "fedexp")),
    "federation.server-second-momentum": _RUNNING_MEANS,
    "federation.server-bias-correction": _RUNNING_MEANS,
    "federation.server-tau": (_OPTIMIZER, among("none", "momentum", "nesterov")),
    "federation.server-decay-steps": DECAYED,
    "federation.trusted": ("federation.merge", but("fltrust")),
    "federation.beyond-bound": ("federation.update-bound", among(0.0)),
}
FEDAVG_UNREAD: Unread = {
    **AVERAGING_UNREAD,
    **PRIVACY_UNREAD,
    "federation.local-epochs": ("training.local-steps", bool),
}
"""Keys that nothing reads with certain values of others."""
