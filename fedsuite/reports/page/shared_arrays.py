"""What of a run's model crosses between clients and server, counted from its file."""

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from fedsuite.arrays import Share
from fedsuite.errors import InputError

MOST_MODULES = 8


def shared_line(model: Path, what: str, share: Share, without: str = "") -> str:
    """Such as "the agent: 24 arrays, 465,123 numbers (encoder 5, decoder 15, critic 4)".

    without: beginning of the names of arrays that are in the file and are not meant. `what` alone where there is no file.
    """
    if not model.is_file():
        return what
    found = {k: n for k, n in sizes_of(model) if share.covers(k)}
    sizes = {k: n for k, n in found.items() if not (without and k.startswith(without))}
    counts: dict[str, int] = {}
    for name in sizes:
        module = name.partition(".")[0]
        counts[module] = counts.get(module, 0) + 1
    modules = ", ".join(f"{name} {count}" for name, count in counts.items())
    text = f"{what}: {len(sizes)} arrays, {sum(sizes.values()):,} numbers"
    return f"{text} ({modules})" if 1 < len(counts) <= MOST_MODULES else text


def hidden_lines(federation: Any) -> Iterator[str]:
    """How the server is shown what clients send, one sentence each; federation: a section with secure sums and codecs."""
    if federation.secure_sum:
        yield "These are masked: the server sees the sum of all changes of a round, and no single one."
    if federation.codec != "none":
        yield f"Changes are coded by {federation.codec} before they leave."


def sizes_of(model: Path) -> Iterator[tuple[str, int]]:
    """Name and size of every array; the arrays are not read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(model, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, prod(file.get_slice(name).get_shape())
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{model}: cannot be read ({error}); restore it, or move the run's folder away"
        ) from None
