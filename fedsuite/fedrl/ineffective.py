"""Keys of a FedRL run that nothing reads with certain values of others."""

from fedsuite.settings.unread import Both, Unread, among, but

_GRID = ("world.kind", among("gridworld"))
_TEXT = ("world.kind", among("text2action"))
_OF_TEXTS = (
    "data.corpus", "data.word-vectors", "data.word-vector-size", "world.task", "world.max-words", "world.text-reward",
    "world.last-word-bonus", "network.tag-size", "published.exclusive-rewards",
)  # fmt: skip
_OF_MAPS = (
    "world.grid-size", "world.step-limit", "world.step-reward", "world.obstacle-reward", "world.meeting-reward",
    "network.kernels", "published.windows", "published.distance", "published.starts", "evaluation.episodes",
)  # fmt: skip
_OF_PARTIES = (
    "federation.parties",
    "network.mlp-hidden",
    "published.mlp-updates",
    "published.mlp-start",
)

UNREAD: Unread = {
    **dict.fromkeys(_OF_TEXTS, _GRID),
    **dict.fromkeys(_OF_MAPS, _TEXT),
    **dict.fromkeys(_OF_PARTIES, ("federation.method", but("fedrl"))),
    "data.maps": [("data.dir", bool), _TEXT],
    "data.generated-seed": Both(("data.dir", bool), ("data.corpus", but("generated"))),
}
