"""The attacks of `fedsuite audit` on runs of CDL."""

from collections.abc import Mapping

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.exposure.findings import inversion, matching, membership, undivided
from simulations.audits.audited import Attack
from simulations.audits.cores import attack_of


def attacks(config: CDLConfig) -> Mapping[str, Attack]:
    """Division needs a linear layer from features to the angle, which FADNet does not have, and steps of one frame."""
    divided = {} if undivided(config) else {"inversion": inversion}
    cores = {**divided, "matching": matching, "membership": membership}
    return {name: attack_of(core) for name, core in cores.items()}
