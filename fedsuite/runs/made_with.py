"""Which versions of packages a run was made with, and what is said where a resume has others.

Versions of torch may draw other random numbers by the same seed, and all change last bits: a run that went on with others
is none the worse, but it has not the bytes of one that was never interrupted.
"""

from collections.abc import Mapping

from fedsuite.errors import one_line
from fedsuite.storage.installed import version_of

PACKAGES = ("fedsuite", "flwr", "ray", "torch", "numpy")
THEN = ", then "


def versions_here() -> dict[str, str]:
    """Package -> version, or "not installed"."""
    return {name: version_of(name) for name in PACKAGES}


def carried_on(before: object, here: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """What a run has been made with when it goes on, "2.13.0, then 2.15.0", and a line on what is new; "" if nothing is.

    before: what this gave when the run was last carried on, as run.json has it.
    """
    known = before if isinstance(before, Mapping) else {}
    versions, others = dict(here), []
    for name, now in here.items():
        so_far = one_line(str(known.get(name, now)), 200)
        last = so_far.rpartition(THEN)[2]
        versions[name] = so_far if last == now else so_far + THEN + now
        if last != now:
            others.append(f"{name} {now} in place of {last}")
    if not others:
        return versions, ""
    told = f"the run goes on with {', '.join(others)}"
    return versions, f"{told}: its bytes may be others than with one version"
