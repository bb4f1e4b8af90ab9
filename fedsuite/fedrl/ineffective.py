"""Keys of a FedRL run that nothing reads with certain values of others."""

from fedsuite.settings.unread import Both, Condition, Unread, among, but

_GRID = ("world.kind", among("gridworld"))
_TEXT = ("world.kind", among("text2action"))
_KEEPS = ("federation.method", but("fedrl"))  # nothing leaves a party
_UNTRAINED = ("federation.method", among("random", "oracle"))
_NO_WORDS = ("federation.method", among("random", "oracle", "dqn-alpha", "fcn-alpha"))
_NO_REPLAY = ("federation.method", among("random", "oracle", "fcn-alpha", "fcn-full"))

_OF_TEXTS = (
    "data.corpus", "data.fold", "world.task", "world.max-words", "world.text-reward", "world.last-word-bonus",
    "published.selection",
)  # fmt: skip
_OF_MAPS = (
    "world.grid-size", "world.step-limit", "world.step-reward", "world.obstacle-reward", "world.meeting-reward",
    "published.distance", "published.starts", "evaluation.episodes",
)  # fmt: skip
_OF_PARTIES = (
    "federation.parties", "network.mlp-hidden", "privacy.behaviour-noise", "privacy.delta", "published.mlp-updates",
    "published.mlp-start", "published.noise-probability",
)  # fmt: skip
_OF_LEARNERS = (
    "world.history", "network.filters", "learning.learning-rate", "learning.batch-size", "learning.round-length",
    "learning.patience", "federation.parallel-episodes", "privacy.noise-sigma", "privacy.q-clip",
)  # fmt: skip
_OF_REPLAY = (
    "learning.discount", "learning.memory", "learning.reward-quota", "learning.epsilon-last", "learning.epsilon-steps",
    "learning.target-every", "learning.steps-per-update",
)  # fmt: skip
_EITHER: dict[str, list[Condition]] = {
    "network.kernels": [_TEXT, _UNTRAINED],
    "network.tag-size": [_GRID, _UNTRAINED],
    "data.word-vectors": [_GRID, _NO_WORDS],
    "data.word-vector-size": [("data.word-vectors", bool), _GRID, _NO_WORDS],
    "published.windows": [_TEXT, _UNTRAINED],
    "published.first-frame": [_TEXT, _NO_REPLAY],
    "published.timeouts": [_TEXT, _NO_REPLAY],
    "published.exclusive-rewards": [_GRID, ("world.task", among("names"))],
}

UNREAD: Unread = {
    **dict.fromkeys(_OF_TEXTS, _GRID),
    **dict.fromkeys(_OF_MAPS, _TEXT),
    **dict.fromkeys(_OF_PARTIES, _KEEPS),
    **dict.fromkeys(_OF_LEARNERS, _UNTRAINED),
    **dict.fromkeys(_OF_REPLAY, _NO_REPLAY),
    **_EITHER,
    # FedRL's own target networks, and the second convolution of DQN-full's.
    "published.target-refresh": ("federation.method", but("fedrl", "dqn-full")),
    "data.maps": [("data.dir", bool), _TEXT],
    "data.generated-seed": Both(("data.dir", bool), ("data.corpus", but("generated"))),
}
