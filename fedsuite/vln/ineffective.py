"""Keys of a FedVLN run that nothing reads with certain values of others."""

from fedsuite.averaging.privacy_settings import EXAMPLE, PRIVACY_UNREAD
from fedsuite.averaging.settings import AVERAGING_UNREAD, DECAYED
from fedsuite.settings.unread import Both, Condition, Unread, among, but

_GENERATED = ("data.dir", bool)
_NOBODY = ("sabotage.clients", among(""))
_NO_BACKDOOR = [_NOBODY, ("sabotage.attack", but("backdoor"))]
_SPEAKER = ("stage", among("speaker"))
# Agents learn from generated instructions alone then, behind the dropout of these.
_GENERATED_ALONE = Both(
    ("stage", among("pre-explore")), ("federation.seen-participation-rate", among(0.0))
)
_NO_TEACHER: list[Condition | Both] = [_SPEAKER, _GENERATED_ALONE]
_ALONE = ("federation.method", but("federated"))
_NO_STACK = [("federation.houses-per-message", among(0, 1)), _SPEAKER]
_OF_AGENTS = (
    "agent.decoder", "agent.action-embedding-size", "agent.masked-pooling", "agent.max-actions", "objective.kind",
    "objective.bias-correction", "evaluation.metrics", "evaluation.trajectory",
)  # fmt: skip

UNREAD: Unread = {
    **PRIVACY_UNREAD,
    **AVERAGING_UNREAD,
    "objective.fill-batches": ("privacy.unit", among(EXAMPLE)),
    "data.language": ("data.dataset", but("rxr")),
    "data.ndh-path": ("data.dataset", but("ndh")),
    "data.augmented": ("data.dir", among("")),
    "data.bert-vocabulary": [("data.dir", among("")), ("data.dataset", among("rxr"))],
    "data.generated-seed": _GENERATED,
    "data.generated-seen-houses": _GENERATED,
    "data.generated-unseen-houses": _GENERATED,
    "data.generated-paths-per-house": _GENERATED,
    "data.generated-feature-size": _GENERATED,
    "data.features": ("data.dir", among("")),
    **dict.fromkeys(_OF_AGENTS, _SPEAKER),
    "agent.feature-dropout": _GENERATED_ALONE,
    "objective.teacher-weight": _NO_TEACHER,
    "agent.train-max-actions": [_SPEAKER, ("objective.kind", among("none"))],
    "objective.discount": [_SPEAKER, ("objective.kind", but("a2c"))],
    "objective.entropy-weight": [_SPEAKER, ("objective.kind", but("a2c"))],
    "objective.sampled-weight": [_SPEAKER, ("objective.kind", among("none"))],
    "objective.generated-weight": ("stage", among("train", "speaker")),
    "objective.environment-dropout": ("stage", among("train", "speaker")),
    "objective.max-generated-length": ("stage", among("train")),
    "training.stacked": _NO_STACK,
    "training.cuda-graphs": [("training.stacked", among("no")), *_NO_STACK],
    "evaluation.personal-encoder": [("stage", but("pre-explore")), _ALONE],
    "federation.server-learning-rate": _ALONE,
    "federation.server-learning-rate-decay": _ALONE,
    "federation.server-decay-steps": [DECAYED, _ALONE],
    "federation.max-share": _ALONE,
    "federation.participation": ("federation.method", among("centralised")),
    "federation.participation=published": ("federation.participation-rate", among(1.0)),
    "federation.aggregation": _ALONE,
    "federation.group-size": [("federation.aggregation", among("sequential")), _ALONE],
    "sabotage.attack": _NOBODY,
    "sabotage.scale": [_NOBODY, ("sabotage.attack", among("weight-lie", "label-flip", "backdoor"))],
    "sabotage.poisoned": _NO_BACKDOOR,
    "sabotage.scored": _NO_BACKDOOR,
    "sabotage.trigger-size": _NO_BACKDOOR,
    "sabotage.from-round": [_NOBODY, ("sabotage.attack", among("label-flip"))],
}
