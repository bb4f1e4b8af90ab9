"""Of a run's keys that nothing is said to read, none changes what the run leaves, whatever values all of them have."""

from pathlib import Path

import pytest

from fedsuite.errors import InputError
from tests.mistakes.silent_keys import RUNS, Playing

QUICK = {"fedvln": (1, 2, 3, 6, 7, 14), "cdl": (2, 3, 6, 8), "fedrl": (*range(9), 11)}
"""Numbers of lines of RUNS: those that decide about most keys. All of them take a minute more."""


@pytest.mark.parametrize(
    ("name", "line"), [(n, line) for n, lines in QUICK.items() for line in lines]
)
def test_what_is_said_to_be_unread_changes_nothing(
    tmp_path: Path, cache: Path, name: str, line: int
) -> None:
    playing = Playing(name, tmp_path, cache)
    keys = playing.keys_of(RUNS[name][line])
    together = dict(keys)
    for key, value in playing.trials(keys):
        if key in playing.said({**keys, key: value}):
            try:
                if key in playing.said({**together, key: value}):
                    together[key] = value
            except InputError:  # two that do not go with each other
                continue
    changed = {k for k, v in together.items() if v != keys.get(k)}
    assert len(changed) >= 3, changed
    assert playing.play(together) == playing.play(keys), changed
