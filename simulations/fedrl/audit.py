"""The attacks of `fedsuite audit` on runs of FedRL."""

from collections.abc import Mapping

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.exposure import probe_findings, target_findings
from simulations.audits.audited import Attack
from simulations.audits.cores import CoreAttack


def attacks(config: FedRLConfig) -> Mapping[str, Attack]:
    """By name; InputError for a method of one party: nothing leaves it."""
    if len(config.federation.roles) < 2:
        raise InputError(
            f"federation.method: a run of {config.federation.method} has one party, and nothing leaves it; audit a run of "
            "fedrl"
        )
    cores = {"probe": probe_findings, "targets": target_findings}
    return {name: CoreAttack(core) for name, core in cores.items()}
