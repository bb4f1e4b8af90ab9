"""One message for several clients of a simulation: what it says of each, its members, stands under "<partition>." ."""

from collections.abc import Mapping
from typing import Any

MEMBERS = "members"  # partitions that a message is for, as "3,7"
SECONDS = "seconds"  # of one member: how long it computed
START = "start"  # of one member: the arrays that it starts from are those under "<start>."
FAILED = "failed"  # of a reply: by partition what went wrong with members that have no part in it


def of_member(values: Mapping[str, Any], partition: int) -> dict[str, Any]:
    """What a message or a reply says of one member."""
    prefix = f"{partition}."
    return {k.removeprefix(prefix): v for k, v in values.items() if k.startswith(prefix)}


def for_member(values: Mapping[str, Any], partition: int) -> dict[str, Any]:
    """The same values as they stand in a message."""
    return {f"{partition}.{key}": value for key, value in values.items()}
