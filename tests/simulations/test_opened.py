"""Which clients a process keeps open: none of an earlier run, and in any case those whose state is in memory alone."""

import gc
from importlib import import_module
from pathlib import Path
from weakref import ref

import pytest

from simulations.app.opened import Opened
from tests.mistakes.silent_keys import RUNS, Playing


@pytest.mark.parametrize("system", RUNS)
def test_clients_of_a_run_are_let_go_with_the_next_run(tmp_path: Path, system: str) -> None:
    playing = Playing(system, tmp_path)
    open_site = import_module(f"simulations.{system}.client")._open_site
    assert isinstance(open_site, Opened)
    keys = {**playing.keys_of({}), "num-rounds": 1}
    playing.play({**keys, "name": "first"})
    first = [ref(site) for site in open_site._kept.values()]
    assert len(first) > 1 and all(site() for site in first)
    playing.play({**keys, "name": "second"})
    gc.collect()
    assert len(open_site) == len(first)
    assert not any(site() for site in first)


def test_parties_whose_state_is_in_memory_stay_open(tmp_path: Path) -> None:
    playing = Playing("fedrl", tmp_path)
    keys = playing.keys_of({})
    assert playing.play({**keys, "open-clients": 1}) == playing.play(keys)
