"""Keys of a FedVLN run that nothing reads with certain values of others."""

from fedsuite.unread import Unread, among, but

_OPTIMIZER = "federation.server-optimizer"
_GENERATED = ("data.dir", bool)
_NOBODY = ("sabotage.clients", among(""))
_RUNNING_MEANS = (_OPTIMIZER, among("none", "momentum", "nesterov", "adagrad", "fedexp"))
_ALONE = ("federation.method", but("federated"))

UNREAD: Unread = {
    "data.language": ("data.dataset", but("rxr")),
    "data.generated-seed": _GENERATED,
    "data.generated-seen-houses": _GENERATED,
    "data.generated-unseen-houses": _GENERATED,
    "data.generated-paths-per-house": _GENERATED,
    "data.generated-feature-size": _GENERATED,
    "data.features": ("data.dir", among("")),
    "objective.discount": ("objective.kind", but("a2c")),
    "objective.entropy-weight": ("objective.kind", but("a2c")),
    "objective.sampled-weight": ("objective.kind", among("none")),
    "objective.generated-weight": ("stage", among("train", "speaker")),
    "objective.environment-dropout": ("stage", among("train", "speaker")),
    "objective.max-generated-length": ("stage", among("train")),
    "evaluation.personal-encoder": ("stage", but("pre-explore")),
    "federation.penalty-strength": ("federation.local-penalty", among("none")),
    "federation.server-momentum": (_OPTIMIZER, among("none", "adagrad", "fedexp")),
    "federation.server-second-momentum": _RUNNING_MEANS,
    "federation.server-bias-correction": _RUNNING_MEANS,
    "federation.server-tau": (_OPTIMIZER, among("none", "momentum", "nesterov")),
    "federation.server-learning-rate": _ALONE,
    "federation.server-learning-rate-decay": _ALONE,
    "federation.server-decay-steps": [
        ("federation.server-learning-rate-decay", among(1.0)),
        _ALONE,
    ],
    "federation.max-share": _ALONE,
    "federation.group-size": ("federation.aggregation", among("sequential")),
    "federation.beyond-bound": ("federation.update-bound", among(0.0)),
    "sabotage.attack": _NOBODY,
    "sabotage.scale": [_NOBODY, ("sabotage.attack", among("weight-lie", "label-flip"))],
    "sabotage.from-round": [_NOBODY, ("sabotage.attack", among("label-flip"))],
}
