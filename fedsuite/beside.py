"""Whether the packages beside this one are ours: a folder of the same name, found earlier, takes their place in Python."""

from importlib.util import find_spec
from pathlib import Path

from fedsuite.errors import InputError

PACKAGES = ("simulations", "strategies", "clients")
_ROOT = Path(__file__).resolve().parents[1]


def check_beside() -> None:
    """InputError, which names the folder, if one of our packages is not found where this one is."""
    for name in PACKAGES:
        for found in _places(name):
            if found.resolve() != _ROOT / name:
                raise InputError(
                    f"{found}: Python takes this for fedsuite's own package {name}, because it lies beside the script or on "
                    "PYTHONPATH; rename it, or start from another folder"
                )


def _places(name: str) -> list[Path]:
    """Where Python finds a package, or the one file of that name; [] if nowhere."""
    spec = find_spec(name)
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        return [Path(str(spec.origin))]
    return [Path(place) for place in list(spec.submodule_search_locations)[:1]]
