"""What a client says of itself, read and checked."""

from collections.abc import Mapping

from fedsuite.arrays import LARGEST_COUNT
from fedsuite.errors import RunFailed, one_line
from fedsuite.federation import ClientInfo, Scalar
from fedsuite.roster.software import TOLD

_IDENTITY = ("partition", "name", "num-examples")


def read_identity(properties: Mapping[str, object], whose: str = "a client") -> ClientInfo:
    """Who a client says it is; RunFailed if that makes no sense. whose: answer it is, as the server knows it."""
    partition, name, examples = (properties.get(key) for key in _IDENTITY)
    if type(partition) is not int or type(examples) is not int or not isinstance(name, str):
        raise RunFailed(
            f"{whose}: get_properties must return partition (int), name (str) and num-examples (int), "
            f"got {one_line(str(dict(properties)))}"
        )
    if (
        not name.strip()
        or name != one_line(name.strip(), 200)
        or not 0 <= examples <= LARGEST_COUNT
    ):
        shown = one_line(repr(name))
        raise RunFailed(
            f"{whose}: partition {partition}: bad name {shown} or num-examples {examples}"
        )
    details: dict[str, Scalar] = {
        one_line(key): one_line(value) if isinstance(value, str) else value
        for key, value in properties.items()
        if key not in (*_IDENTITY, *TOLD) and isinstance(value, int | float | str | bool)
    }
    return ClientInfo(partition, name, examples, details)
