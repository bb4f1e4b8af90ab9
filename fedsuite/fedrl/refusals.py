"""What a party's own file (fedsuite.roster.node) refuses: Q-values that leave it with too little noise, or unclipped."""

from collections.abc import Iterator

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.roster.node import NodeSettings
from fedsuite.settings.values import shown


def accepts(config: FedRLConfig, node: NodeSettings) -> None:
    """InputError for the first thing that this party does not do. In a run of one party no message is answered with Q-values
    (fedsuite/fedrl/protocol.py), so nothing has to be asked of its noise."""
    if len(config.federation.roles) > 1:
        for complaint in _complaints(config, node):
            raise InputError(complaint)


def _complaints(config: FedRLConfig, node: NodeSettings) -> Iterator[str]:
    own, least, largest = config.privacy, node.least_noise_sigma, node.largest_q_clip
    if own.noise_sigma < least:
        yield (
            f"privacy.noise-sigma: the run wants {own.noise_sigma:g}, this node allows {least:g} at least "
            "(least-noise-sigma)"
        )
    chance = config.published.rules.noise_probability
    needed = {
        "privacy.behaviour-noise": (own.behaviour_noise, True),
        "privacy.test-noise": (own.test_noise, "noisy"),
        "published.noise-probability": (chance, 1.0),
    }
    for key, (wanted, allowed) in needed.items():
        if least and wanted != allowed:
            yield (
                f"{key}: the run wants {shown(wanted)}, this node allows {shown(allowed)} only, for else Q-values leave "
                "it without noise (least-noise-sigma)"
            )
    if largest and not 0 < own.q_clip <= largest:
        yield (
            f"privacy.q-clip: the run wants {own.q_clip:g}{' (no clipping)' if own.q_clip == 0 else ''}, this node "
            f"allows more than 0, at most {largest:g} (largest-q-clip)"
        )
