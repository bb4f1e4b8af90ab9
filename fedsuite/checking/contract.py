"""What all checkers share: the one exception, and what holds for named arrays, scalars and metrics everywhere."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedsuite.arrays import Arrays, non_finite
from fedsuite.errors import InputError, RunFailed

Forms = Mapping[str, tuple[tuple[int, ...], str]]


class ContractError(AssertionError):
    """A clause is broken: where, what was expected, what came, and the likely cause, in one line."""


def require(holds: object, where: str, expected: object, got: object, cause: str) -> None:
    if not holds:
        found = (got if isinstance(got, str) else repr(got))[:200]
        raise ContractError(f"{where}: expected {expected}, got {found}; likely cause: {cause}")


@contextmanager
def no_exception(where: str, cause: str) -> Iterator[None]:
    """Turns an exception into a ContractError; those that a run may end with pass, StopIteration too."""
    try:
        yield
    except (ContractError, InputError, RunFailed, StopIteration):
        raise
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        raise ContractError(
            f"{where}: expected no exception, got {found}; likely cause: {cause}"
        ) from error


def check_arrays(where: str, arrays: Any) -> None:
    """A dict of finite numeric numpy arrays, named by texts of one line."""
    kind, cause = type(arrays).__name__, "a list or a state_dict; see fedsuite.arrays.module_arrays"
    require(isinstance(arrays, dict), where, "a dict of arrays by name", kind, cause)
    for name, array in arrays.items():
        good = isinstance(name, str) and name and "\n" not in name and not name.startswith("//")
        cause = "names travel one a line, and checkpoints use // for their own"
        require(good, where, "names of one line that do not start with //", [name], cause)
        plain = type(array) is np.ndarray and array.dtype.kind in "fiub"
        found = type(array).__name__, getattr(array, "dtype", "")
        cause = "a tensor (use .numpy()), a bare number (use np.asarray), or an array of objects"
        require(plain, f"{where}, array {name}", "a plain numpy array of numbers", found, cause)
    bad = non_finite(arrays)
    require(not bad, where, "finite arrays", f"NaN or infinity in {bad[:3]}", "it diverged")


def forms(arrays: Mapping[str, np.ndarray]) -> Forms:
    """Shape and type by name."""
    return {name: (tuple(a.shape), str(a.dtype)) for name, a in arrays.items()}


def check_forms(where: str, arrays: Arrays, expected: Forms) -> None:
    """Names, shapes and types are those of `expected`."""
    found, cause = forms(arrays), "an array was dropped, renamed or added"
    require(found.keys() == expected.keys(), where, f"arrays {sorted(expected)}", [*found], cause)
    for name, form in expected.items():
        cause = "a reshape, or float64 arithmetic without .astype"
        require(found[name] == form, f"{where}, array {name}", form, found[name], cause)


def check_scalars(where: str, scalars: Mapping[str, Any]) -> None:
    """Names are texts, values plain Python numbers, texts or truth values, and finite."""
    for key, value in scalars.items():
        plain = isinstance(key, str) and type(value) in (int, float, str, bool)
        cause = "a numpy number (use int or float), or a list"
        require(plain, f"{where}, {key}", "an int, float, str or bool", value, cause)
        finite = not isinstance(value, float) or math.isfinite(value)
        require(finite, f"{where}, {key}", "a finite number", value, "a division by 0")


def check_metrics(where: str, metrics: Mapping[str, Any]) -> None:
    """Names are texts, values finite numbers."""
    for key, value in metrics.items():
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        good = isinstance(key, str) and number and math.isfinite(value)
        cause = "a mean over nothing, a text, a truth value or an array"
        require(good, f"{where}, metric {key}", "a finite number", value, cause)
