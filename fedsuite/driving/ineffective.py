"""Keys of a CDL run that nothing reads with certain values of others."""

from fedsuite.averaging.privacy_settings import PRIVACY_UNREAD
from fedsuite.averaging.settings import AVERAGING_UNREAD
from fedsuite.settings.unread import Both, Unread, among, but

_GENERATED = ("data.dir", bool)
_DRIVES = ("data.dir", among(""))
_LOSS = ("objective.loss", among("none"))
_NOBODY = ("sabotage.clients", among(""))
_UNMIXED = ("federation.scenario", among("cll", "local"))
_NO_MOMENTUM = ("training.optimizer", among("adam", "sgd", "gradient-tracking", "relay-sgd"))
_DIVERGENCE = [("objective.loss", but("kl")), ("objective.loss-space", among("gaussian"))]
_CHAIN = ("objective.loss", but("cd_k"))
_OF_LINKS = (
    "model-bits", "latency-ms-per-km", "base-latency-ms", "core-capacity-gbit-s", "access-capacity-gbit-s",
)  # fmt: skip
_OF_SERVER = {
    f"federation.server-{key}" for key in ("momentum", "second-momentum", "bias-correction", "tau")
}

UNREAD: Unread = {
    **PRIVACY_UNREAD,
    **{k: when for k, when in AVERAGING_UNREAD.items() if k in _OF_SERVER or "secure-sum" in k},
    "data.road-character": _GENERATED,
    "data.generated-seed": Both(_GENERATED, ("data.dirichlet", among(0.0))),
    "data.train-frames": _GENERATED,
    "data.test-frames": _GENERATED,
    "data.silo-sizes": _GENERATED,
    "data.label-skew": _GENERATED,
    "data.appearance-skew": _GENERATED,
    "data.concept-skew": _GENERATED,
    "data.label-noise": _GENERATED,
    "data.kind": _DRIVES,
    "data.bad-rows": _DRIVES,
    "data.angle-scale": _DRIVES,
    "data.angle-positive": _DRIVES,
    "data.every-nth": _DRIVES,
    "data.max-frames": _DRIVES,
    "data.dirichlet": _DRIVES,
    "data.test-share": _DRIVES,
    "data.angle-limit": Both(_DRIVES, _CHAIN),
    "data.fold": [_DRIVES, ("data.test-split", among("official"))],
    "objective.loss-space": _LOSS,
    "objective.beta": _LOSS,
    "objective.apply-beta": _LOSS,
    "objective.temperature": _DIVERGENCE,
    "network.share-stem": _LOSS,
    "objective.influence": _LOSS,
    "objective.influence-floor": [_LOSS, ("objective.influence", among("constant"))],
    "objective.sub-network": _LOSS,
    "objective.sub-network=reset": ("training.local-updates", among(1)),
    "objective.sub-network-momentum": ("objective.sub-network", but("average")),
    "objective.kl-direction": _DIVERGENCE,
    "objective.chain-steps": _CHAIN,
    "objective.chain-rate": _CHAIN,
    "objective.chain-samples": _CHAIN,
    "objective.energy-std": _CHAIN,
    "objective.metropolis": _CHAIN,
    "federation.scenario=fedprox": (
        "training.local-updates",
        among(1),
    ),  # the pull is 0 at a step's start
    "federation.proximal-mu": ("federation.scenario", but("fedprox")),
    "federation.matcha-budget": ("federation.scenario", but("matcha", "matcha_plus")),
    "training.momentum": _NO_MOMENTUM,
    "federation.merge": _UNMIXED,
    "federation.mixing-matrix": _UNMIXED,
    # It also says how many silos there are.
    "federation.underlay": Both(_UNMIXED, ("data.num-silos", bool)),
    "wall-clock.computation-time-ms": ("federation.scenario", among("cll")),
    **{f"wall-clock.{key}": _UNMIXED for key in _OF_LINKS},
    "federation.clip-ratio": [("federation.merge", among("mean", "trimmed-mean")), _UNMIXED],
    "federation.tolerated": [("federation.merge", among("mean", "clipped")), _UNMIXED],
    "sabotage.attack": _NOBODY,
    "sabotage.scale": [_NOBODY, ("sabotage.attack", among("label-flip"))],
    "sabotage.from-round": [_NOBODY, ("sabotage.attack", among("label-flip"))],
}
