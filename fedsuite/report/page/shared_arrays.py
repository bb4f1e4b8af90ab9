"""What of a run's model crosses between clients and server, counted from its file."""

from collections.abc import Iterator
from math import prod
from pathlib import Path

from fedsuite.arrays import Share


def shared_line(model: Path, what: str, share: Share | None = None) -> str:
    """Such as "the agent: 24 arrays, 465,123 numbers (encoder 5, decoder 15, critic 4)"; `what` alone where there is no file."""
    if not model.is_file():
        return what
    share = share or Share()
    sizes = {k: n for k, n in _sizes(model) if k.startswith(share.prefixes)}
    counts: dict[str, int] = {}
    for name in sizes:
        module = name.partition(".")[0]
        counts[module] = counts.get(module, 0) + 1
    modules = ", ".join(f"{name} {count}" for name, count in counts.items())
    found = f"{what}: {len(sizes)} arrays, {sum(sizes.values()):,} numbers"
    return f"{found} ({modules})" if 1 < len(counts) <= 8 else found


def _sizes(model: Path) -> Iterator[tuple[str, int]]:
    """Name and size of every array; the arrays are not read."""
    from safetensors import safe_open

    with safe_open(model, framework="numpy") as file:
        for name in file.keys():  # noqa: SIM118
            yield name, prod(file.get_slice(name).get_shape())
