"""What all checkers share: the one exception, and what holds for arrays, scalars, metrics, tasks, replies and results."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedsuite.arrays import Named, fingerprint, non_finite
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import Reply, RoundResult, ServerState, Task

Forms = Mapping[str, tuple[tuple[int, ...], str]]
STEPS, RATE, BEST = "local-steps", "server-learning-rate", "best-round"
RESERVED = ("round", "checkpoint-rounds", "last-trained", "array-names", BEST)


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
    return {name: (a.shape, str(a.dtype)) for name, a in arrays.items()}


def check_forms(where: str, arrays: Named, expected: Forms) -> None:
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


def echo(task: Task) -> Reply:
    """What was sent, or asked for, a little moved; 10 + partition examples, a loss, and one step with training."""
    partition, arrays = task.partition, {}
    for name, (shape, kind) in asked_of(task).items():
        array = task.arrays.get(name, np.zeros(shape, kind or np.float32))
        moved = 0.01 * (1 + partition) if array.dtype.kind == "f" else 0
        arrays[name] = np.asarray(array + moved, array.dtype)
    steps = {"steps": 1.0} if task.kind == "train" else {}
    return Reply(partition, arrays, 10 + partition, {"loss": 1 / (1 + partition)} | steps)


def asked_of(task: Task) -> Forms:
    """Shape and type of the arrays that a reply must carry; an empty type is left to the client."""
    if task.returns is None:
        return {} if task.kind == "evaluate" else forms(task.arrays)
    types = {**task.types, **{name: str(array.dtype) for name, array in task.arrays.items()}}
    return {k: (tuple(shape), types.get(k, "")) for k, shape in task.returns.items()}


def check_tasks(where: str, tasks: Any, known: set[int]) -> None:
    """One exchange, as a strategy yields it."""
    listed = isinstance(tasks, list | tuple) and all(isinstance(t, Task) for t in tasks)
    require(listed, where, "a list of Task", tasks, "a single task, or a generator")
    numbers = [t.partition for t in tasks]
    cause = "a count, or a node id, in place of ClientInfo.partition"
    require(set(numbers) <= known, where, f"partitions among {sorted(known)}", numbers, cause)
    once, cause = len(set(numbers)) == len(numbers), "two exchanges in one; yield for each"
    require(once, where, "one task for each partition", numbers, cause)
    kinds = sorted({str(t.kind) for t in tasks})
    good = len(kinds) < 2 and set(kinds) <= {"train", "evaluate"}
    require(good, where, "one kind an exchange, train or evaluate", kinds, "a typing error")
    for task in tasks:
        here = f"{where}, task of partition {task.partition}"
        check_arrays(here, task.arrays)
        check_scalars(f"{here}, config", task.config)
        taken = [key for key in task.config if key in RESERVED]
        require(not taken, here, f"config without {RESERVED}", taken, "the loop fills these in")
        good = task.kind == "train" or not task.returns
        require(good, here, "an evaluation asking for no arrays", task.returns, "a wrong kind")


def check_reply(where: str, task: Task, reply: Reply) -> None:
    """A reply of a client, or one that is made up."""
    check_arrays(where, reply.arrays)
    found, asked = forms(reply.arrays), asked_of(task)
    typed = {k: (shape, t or found.get(k, ((), t))[1]) for k, (shape, t) in asked.items()}
    check_forms(where, reply.arrays, typed)
    check_metrics(where, reply.metrics)
    count, steps = reply.num_examples, reply.metrics.get("steps", 0)
    good, cause = type(count) is int and count >= 0, "a numpy number, or a mean"
    require(good, where, "a whole number of examples >= 0", count, cause)
    good, cause = steps >= 0 and float(steps).is_integer(), "a mean over clients"
    require(good, where, "a whole number of steps >= 0", steps, cause)


def check_result(where: str, result: Any, given: ServerState | None) -> None:
    """What a step returns; given: the state that it was given, if it is to keep that state's form."""
    good = isinstance(result, RoundResult) and isinstance(result.state, ServerState)
    require(good, where, "a RoundResult with a ServerState", result, "a wrong return")
    state = result.state
    for name in ("arrays", "optimizer", "best", "rules"):
        check_arrays(f"{where}, state.{name}", getattr(state, name))
    check_scalars(f"{where}, state.scalars", state.scalars)
    check_metrics(where, result.metrics)
    if given is None:
        return
    check_forms(f"{where}, state.arrays", state.arrays, forms(given.arrays))
    loops = {k: v for k, v in given.scalars.items() if k in (STEPS, RATE) or k.startswith("best-")}
    kept = {k: state.scalars.get(k) for k in loops}
    cause = "a new ServerState; use dataclasses.replace(state, ...)"
    require(kept == loops, f"{where}, state.scalars", f"the loop's {loops}", kept, cause)
    same = fingerprint(state.best) == fingerprint(given.best)
    require(same, f"{where}, state.best", "the best state as it was", [*state.best], cause)


def as_text(thing: ServerState | Task | Reply) -> str:
    """All that it says; equal for equal things only."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return fingerprint({"": value})
        return dict(value) if isinstance(value, Mapping) else float(value)

    return json.dumps(vars(thing), sort_keys=True, default=plain)


def kind_of(tasks: Sequence[Task]) -> str:
    """The kind of an exchange; "" if nobody is asked."""
    return tasks[0].kind if tasks else ""
