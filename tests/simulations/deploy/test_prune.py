"""What is left of runs that are over is deleted where their node's operator says so, and nothing else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsuite.roster.members import Roster, write_roster
from tests import cdl_runs
from tests.harness import prepared
from tests.nodes import deploy, write_node

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def played(cache: Path, tmp_path: Path) -> tuple[Path, list[str]]:
    """The file of a node that took part in two runs, and their keys; the first was two days ago."""
    config = cdl_runs.config_of(cache, tmp_path / "server", "first", num_rounds=1)
    roster: Roster = prepared(config)
    write_roster(tmp_path / "roster.json", roster)
    config["roster"] = str(tmp_path / "roster.json")
    files = [
        write_node(tmp_path / name, name, tmp_path / "roster.json", data={"cache-dir": str(cache)})
        for name in roster.names
    ]
    runs = [deploy({**config, "name": n}, files, i) for i, n in enumerate(("first", "second"), 1)]
    keys = [(run.path / "run-key").read_text() for run in runs]
    state = files[0].parent / "state"
    for path in (*(state / keys[0]).rglob("*"), state / "flower-runs" / "1"):
        os.utime(path, (path.stat().st_mtime - 2 * 86400,) * 2)
    return files[0], keys


def below(folder: Path) -> dict[str, bytes | None]:
    found = sorted(folder.rglob("*"))
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in found}


def test_runs_that_are_over(played: tuple[Path, list[str]], call: Call) -> None:
    file, (first, second) = played
    state, node = file.parent / "state", str(file)
    before = below(state)
    assert any(name.startswith(f"{first}/") and data for name, data in before.items())
    code, out, _ = call("deploy", "prune", node, engine=False)
    assert code == 0 and out.count(": kept\n") == 2 and first in out and second in out
    code, out, _ = call("deploy", "prune", node, "--idle-days", "1", "--dry-run", engine=False)
    assert code == 0 and out.count("would be deleted") == 1 and below(state) == before
    code, out, _ = call("deploy", "prune", node, "--idle-days", "1", engine=False)
    assert code == 0 and f"{first}  " in out and ": deleted\n" in out and "kept in any case" in out
    gone = {n for n in before if n.split("/")[0] == first or n == "flower-runs/1"}
    assert below(state) == {name: data for name, data in before.items() if name not in gone}
    assert call("deploy", "prune", node, "--run", second, engine=False)[0] == 0
    assert not (state / second).exists() and not (state / "flower-runs" / "2").exists()
    code, _, err = call("deploy", "prune", node, "--run", second, engine=False)
    assert code == 2 and f"--run {second}: nothing of it in" in err


def test_what_no_client_has_written_stays_with_all_around_it(
    played: tuple[Path, list[str]], call: Call
) -> None:
    file, (first, _) = played
    state = file.parent / "state"
    name = next(p.name for p in (state / first).iterdir())
    (state / first / name / "thesis.txt").write_text("three years")
    before = below(state)
    code, _, err = call("deploy", "prune", str(file), "--run", first, engine=False)
    assert code == 2 and "thesis.txt: fedsuite does not write this" in err and err.count("\n") == 1
    assert below(state) == before
    code, _, err = call("deploy", "prune", str(file), "--run", "../else", engine=False)
    assert code == 2 and "expected a run's key, 32 digits" in err
