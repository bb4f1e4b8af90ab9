"""What messages carry beside the arrays of a model, by the prefix of its name."""

from collections.abc import Iterable

from fedsuite.averaging.control_variates import CONTROL
from fedsuite.errors import InputError

OPTIMIZER = "optimizer."
"""Prefix of an optimizer's state, where clients hand it on (client-optimizer = shared)."""
BESIDE = (CONTROL, OPTIMIZER)


def check_names(names: Iterable[str], where: str) -> None:
    """InputError, which starts with `where`, if an array of a network is named as what goes beside networks."""
    if taken := next((name for name in names if name.startswith(BESIDE)), ""):
        layer = taken.partition(".")[0]
        raise InputError(
            f"{where}: the network has a layer {layer!r}, which is how messages name what goes beside a network; rename it"
        )
