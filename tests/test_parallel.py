"""Work in several processes: order, errors, processes that die, and houses that are equal to the byte."""

import operator
import os
from functools import partial
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from fedsuite.errors import InputError, RunFailed
from fedsuite.storage.files import read_object
from fedsuite.vln.data.prepare import prepare_houses
from fedsuite.vln.generator.houses import HouseSettings, write_houses
from fedsuite.vln.generator.parallel import mapped


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 3, 9])
def test_results_come_in_order(processes: int) -> None:
    assert list(mapped(operator.neg, range(7), processes)) == [0, -1, -2, -3, -4, -5, -6]


def test_few_things_are_done_here() -> None:
    assert set(mapped(_pid, range(3))) == {os.getpid()}
    assert list(mapped(_pid, [])) == []


def _pid(_: int) -> int:
    return os.getpid()


def test_what_a_call_raises_is_raised_when_its_turn_comes() -> None:
    results = mapped(partial(operator.truediv, 6), [1, 2, 0, 3], 2)
    assert [next(results), next(results)] == [6.0, 3.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
    read = partial(read_object, what="a table", cure="put it there")
    with pytest.raises(InputError, match="nowhere"):
        list(mapped(read, [Path("nowhere"), Path("nowhere")], 2))


def test_a_process_that_dies_is_one_line() -> None:
    with pytest.raises(RunFailed, match="ended with code 3") as caught:
        list(mapped(os._exit, [3, 3], 2))
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_houses_are_the_same_whatever_the_number_of_processes(tmp_path: Path) -> None:
    settings = HouseSettings(
        num_seen=3, num_unseen=2, paths_per_house=3, unseen_paths=3, feature_size=8
    )
    for processes in (1, 2):
        made, told = tmp_path / f"made-{processes}", Mock()
        write_houses(settings, made, told, processes)
        assert told.mock_calls == [call("generated houses", n, 5) for n in range(1, 6)]
        prepare_houses(made, tmp_path / f"split-{processes}", 1, processes=processes)
    for kind in ("made", "split"):
        files = [
            {p.relative_to(root): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
            for root in (tmp_path / f"{kind}-1", tmp_path / f"{kind}-2")
        ]
        assert files[0] == files[1] and len(files[0]) > 5
