"""The attacks of `fedsuite audit` on runs of CDL."""

from collections.abc import Mapping

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.exposure.findings import inversion, matching, membership, recognition
from fedsuite.errors import InputError
from simulations.audits.audited import Attack
from simulations.audits.cores import CoreAttack


def attacks(config: CDLConfig) -> Mapping[str, Attack]:
    """By name; InputError for a run that shows nobody but neighbours anything."""
    if config.federation.sealed:
        raise InputError(
            "federation.sealed: no message of this run shows a model to a server, and an audit of what neighbours see is of "
            "a run without it; audit one with federation.sealed = false"
        )
    cores = {
        "inversion": inversion,
        "recognition": recognition,
        "matching": matching,
        "membership": membership,
    }
    return {name: CoreAttack(core) for name, core in cores.items()}
