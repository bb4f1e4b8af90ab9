"""`around` a strategy's step: what goes out, what comes back, what is returned and what is raised."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from fedsuite.federation import (
    Asking,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from strategies.wrapping import Wrapped, around


def steps(batches: int, seen: list[Sequence[Reply]]) -> Asking[str]:
    """Asks partition n in batch n."""
    for n in range(batches):
        seen.append((yield [Task(n, "train", {"w": np.full(1, n)})]))
    return "done"


def driven(made: Asking[str]) -> tuple[list[Sequence[Task]], str]:
    """Every task is answered with its own number of examples."""
    asked = []
    try:
        tasks = next(made)
        while True:
            asked.append(tasks)
            tasks = made.send([Reply(t.partition, t.arrays, t.partition, {}) for t in tasks])
    except StopIteration as end:
        return asked, end.value


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_with_nothing_around_it_is_the_step_itself(batches: int) -> None:
    plain: list[Sequence[Reply]] = []
    wrapped: list[Sequence[Reply]] = []
    want, got = driven(steps(batches, plain)), driven(around(steps(batches, wrapped)))
    assert [[t.partition for t in b] for b in got[0]] == [[t.partition for t in b] for b in want[0]]
    assert got[1] == want[1] == "done" and len(wrapped) == len(plain) == batches


def test_both_see_every_batch_and_what_they_make_takes_its_place() -> None:
    seen: list[Sequence[Reply]] = []
    out: list[int] = []

    def before(tasks: Sequence[Task]) -> list[Task]:
        return [replace(t, partition=t.partition + 10) for t in tasks]

    def after(tasks: Sequence[Task], replies: Sequence[Reply]) -> list[Reply]:
        out.extend(t.partition for t in tasks)
        return [replace(r, num_examples=-r.num_examples) for r in replies]

    asked, _ = driven(around(steps(2, seen), before, after))
    assert [[t.partition for t in batch] for batch in asked] == [[10], [11]] and out == [10, 11]
    assert [[r.num_examples for r in batch] for batch in seen] == [[-10], [-11]]


def test_an_end_inside_of_it_is_no_end_of_the_step() -> None:
    def before(tasks: Sequence[Task]) -> list[Task]:
        raise StopIteration("mistake")

    with pytest.raises(RuntimeError, match="StopIteration"):
        driven(around(steps(1, []), before))


class Plain(RoundStrategy):
    def start(self, clients: Sequence[object]) -> Exchanges:
        yield []
        return RoundResult(ServerState({"w": np.zeros(1)}))

    def train(self, number: int, state: ServerState, clients: Sequence[object]) -> Exchanges:
        replies = yield [Task(0, "train", state.arrays)]
        return RoundResult(ServerState(replies[0].arrays))


def test_a_wrapped_strategy_is_the_other_but_for_its_training() -> None:
    inner = Plain()
    ones = {"w": np.ones(1)}
    wrapped = Wrapped(inner, after=lambda _, replies: [replace(r, arrays=ones) for r in replies])
    state = ServerState({"w": np.zeros(1)})
    asked = next(made := wrapped.train(1, state, []))
    with pytest.raises(StopIteration) as end:
        made.send([Reply(t.partition, t.arrays, 1, {}) for t in asked])
    assert end.value.value.state.arrays["w"].tolist() == [1.0]
    for method in ("start", "kinds", "evaluate", "close", "finish"):
        assert method in vars(Wrapped)
    assert wrapped.selection is inner.selection and wrapped.rate is inner.rate


def test_what_is_wrapped_says_when_a_run_ends() -> None:
    class Short(RoundStrategy):
        def over(self, number: int) -> str:
            return "enough" if number > 2 else ""

    assert RoundStrategy().over(10**6) == ""
    wrapped = Wrapped(Wrapped(Short()))
    assert [wrapped.over(n) for n in (1, 2, 3)] == ["", "", "enough"]
