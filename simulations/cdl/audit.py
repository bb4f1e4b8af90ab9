"""The attacks of `fedsuite audit` on runs of CDL."""

from collections.abc import Iterator, Mapping

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.exposure.findings import inversion, matching, membership, undivided
from fedsuite.errors import InputError
from fedsuite.privacy.findings import Finding
from simulations.audits.audited import Attack, Audited
from simulations.audits.cores import attack_of


def attacks(config: CDLConfig) -> Mapping[str, Attack]:
    """Division needs a linear layer from features to the angle, which FADNet does not have, and steps of one frame."""
    if config.federation.sealed:
        raise InputError(
            "federation.sealed: no message of this run shows a model to a server, and an audit of what neighbours see is of "
            "a run without it; audit one with federation.sealed = false"
        )
    divided = {} if undivided(config) else {"inversion": inversion}
    of_steps = {name: attack_of(core) for name, core in {**divided, "matching": matching}.items()}
    if config.federation.secure_sum:
        of_steps = {name: _left_out(name) for name in of_steps}
    return {**of_steps, "membership": attack_of(membership)}


def _left_out(name: str) -> Attack:
    """In the place of an attack on a step that the server is not shown."""

    def attack(audited: Audited) -> Iterator[Finding]:
        audited.progress(f"{name}: left out, a server of secure sums is shown no silo's step")
        return iter(())

    return attack
