"""An audit of FedRL: what Q-vectors and targets tell, from the parties as the run left them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.exposure import (
    QUICK_EXCHANGES,
    open_parties,
    play_on,
    probe,
    probe_findings,
    spared,
    target_findings,
    windows_of,
)
from fedsuite.history.finished import open_finished
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import sha256_of
from fedsuite.storage.progress import silent
from simulations.fedrl.audit import attacks
from tests.fedrl_runs import config_of, play
from tests.harness import changed

Runs = Callable[[str], tuple[FedRLConfig, Path]]
LEARNT: dict[str, Any] = {
    "maps": 600, "round_length": 1500, "memory": 3000, "batch_size": 32, "filters": 16,
    "parallel_episodes": 16, "evaluate_every": 0, "test_noise": "none", "noise_sigma": 1.0, "evaluation_episodes": 20,
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "two": LEARNT,
    "three": {"parties": 3, "parallel_episodes": 4, "test_noise": "noisy", "num_rounds": 1},
    "joint": {"mlp_updates": "joint", "parallel_episodes": 4, "num_rounds": 1},
    "names": {
        "world": "text2action", "max_words": 12, "parallel_episodes": 8, "round_length": 64, "num_rounds": 1
    },
    "alone": {"method": "dqn-beta", "num_rounds": 1},
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Settings and folder of a variant's run, made once."""
    results = tmp_path_factory.mktemp("exposed")

    def run(name: str) -> tuple[FedRLConfig, Path]:
        if not (results / name).exists():
            play(config_of(cache, results, name, **VARIANTS[name]))
        return open_finished(results / name, FedRLConfig)[1], results / name

    return run


def files_of(folder: Path) -> dict[Path, str]:
    return {p: sha256_of(p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def test_windows_are_read_off_q_vectors_and_noise_hides_little(runs: Runs) -> None:
    config, folder = runs("two")
    _, [beta] = open_parties(config, folder)
    bare = probe(beta, 0.0, 0.0, seed=1, quick=True)
    one = probe(beta, 0.0, 1.0, seed=1, quick=True)
    drowned = probe(beta, 1.0, 2.0, seed=1, quick=True)
    assert bare.accuracy.value > bare.majority + 0.1
    assert bare.accuracy.value >= one.accuracy.value > drowned.accuracy.value + 0.05
    assert drowned.auc.value < 0.6
    many = probe(beta, 1.0, 2.0, seed=1, quick=True, resends=400)
    assert many.auc.value > drowned.auc.value + 0.05


@pytest.mark.parametrize(
    ("changes", "which"),
    [
        (
            {"test_noise": "none"},
            ["validations and tests without noise (privacy.test-noise = none)"],
        ),
        (
            {"test_noise": "both"},
            ["validations and tests without noise (privacy.test-noise = both)"],
        ),
        ({"test_noise": "noisy"}, []),
        ({"test_noise": "noisy", "behaviour_noise": False}, ["those that choose actions"]),
        ({"test_noise": "noisy", "follow": "published-code"}, ["50% of the minibatches"]),
        ({"noise_sigma": 0.0}, []),
    ],
)
def test_which_q_vectors_leave_without_noise(changes: dict[str, Any], which: list[str]) -> None:
    found = spared(changed(FedRLConfig(), **changes))
    assert len(found) == len(which)
    assert all(part in text for text, part in zip(found, which, strict=True)), found


def test_q_vectors_that_leave_without_noise_are_read_too(runs: Runs) -> None:
    config, folder = runs("two")
    hidden = changed(config, q_clip=1.0, noise_sigma=2.0, test_noise="noisy")
    assert len([*probe_findings(hidden, folder, 1, silent, True)]) == 4
    found = [*probe_findings(changed(hidden, test_noise="none"), folder, 1, silent, True)]
    noised, clear = found[0], found[4]
    assert [f.target for f in found[4:]] == [clear.target] * 2 and len(found) == 6
    assert clear.target == "beta's window, from one Q-vector that leaves without noise"
    assert "clipped to 1" in clear.note and "test-noise = none" in clear.note
    assert noised.value < noised.chance + 0.05 < clear.chance + 0.1 < clear.value


def test_cells_are_those_around_the_agent(runs: Runs) -> None:
    """By hand: the maps of the world, the place that the record ends with, the agent's own cell left out."""
    config, folder = runs("two")
    _, [beta] = open_parties(config, folder)
    seen = windows_of(beta, 0.0, seed=0, most=40)
    assert seen.cells.shape == (40, 24) and seen.releases.shape == (40, 16)
    ids = np.arange(beta.memory.oldest, beta.memory.count)
    (records,) = beta.memory.gather(ids, "before")
    ground, of_cells = beta.view.ground, dict[bytes, set[int]]()  # type: ignore[attr-defined]
    for place in records[:, -1].tolist():
        row, column = ground.cells(np.array(place))
        number = place // ground.side**2
        free = ground.free.reshape(-1, ground.side, ground.side)[number]
        top, left = row + ground.pad - 2, column + ground.pad - 2
        window = free[top : top + 5, left : left + 5].ravel()
        key = np.delete(window, 12).astype(np.float32).tobytes()
        of_cells.setdefault(key, set()).add(number)
    for cells, number in zip(seen.cells, seen.groups.tolist(), strict=True):
        assert number in of_cells[cells.astype(np.float32).tobytes()]


def test_targets_are_rewards_where_episodes_end(runs: Runs) -> None:
    config, folder = runs("two")
    told = play_on(*open_parties(config, folder), 6)
    assert len(told.ids) == 6 * 16 * 32 and 0 < told.terminal.mean() < 1
    assert (told.targets[told.terminal] == told.rewards[told.terminal]).all()
    assert (told.targets[~told.terminal] != told.rewards[~told.terminal]).any()
    assert np.corrcoef(told.targets, told.rewards)[0, 1] > 0.3


def test_an_audit_changes_nothing_and_is_the_same_again(runs: Runs) -> None:
    config, folder = runs("two")
    before = files_of(folder)
    given = config, folder, 5, silent, True
    found = [*probe_findings(*given), *target_findings(*given)]
    assert files_of(folder) == before
    again = [*probe_findings(*given), *target_findings(*given)]
    assert str(again) == str(found)  # no NaN equals another
    assert {f.attack for f in found} == set(attacks(config)) == {"probe", "targets"}
    assert len(found) == 9 and all(f.counts for f in found), [f for f in found if not f.counts]
    assert all(f.low <= f.value <= f.high for f in found)
    assert all(-1 <= x <= 1 for f in found for x in (f.value, f.chance, f.control))
    ends = next(f for f in found if f.measure == "share of rewards told exactly")
    told = play_on(*open_parties(config, folder), QUICK_EXCHANGES)
    rewards = told.rewards[told.terminal].tolist()
    assert ends.value == 1 > ends.chance == max(map(rewards.count, set(rewards))) / len(rewards)


@pytest.mark.parametrize("variant", ["three", "joint", "names"])
def test_other_protocols_are_played_on_too(runs: Runs, variant: str) -> None:
    config, folder = runs(variant)
    told = play_on(*open_parties(config, folder), 3)
    assert (told.targets[told.terminal] == told.rewards[told.terminal]).all()
    said: list[str] = []
    probed = probe_findings(config, folder, 0, lambda text, *numbers: said.append(text), True)
    if variant == "names":
        assert [*probed] == [] and said == ["probe: left out, texts have no windows"]


def test_played_on_parties_say_what_a_longer_run_says(cache: Path, tmp_path: Path) -> None:
    """One round and exchanges in memory give the networks that a run of two rounds ends with."""
    states = {}
    for rounds in (1, 2):
        changes = {"parallel_episodes": 4, "num_rounds": rounds, "evaluate_every": 0}
        play(config_of(cache, tmp_path, f"r{rounds}", test_noise="none", **changes))
        folder = tmp_path / f"r{rounds}"
        config = open_finished(folder, FedRLConfig)[1]
        states[rounds] = open_parties(config, folder)
    alpha, partners = states[1]
    play_on(alpha, partners, 8)  # 32 steps of 4 envs
    for one, two in zip((alpha, *partners), (states[2][0], *states[2][1]), strict=True):
        mine, theirs = one.state(), two.state()
        # Alpha is given the MLP as beta left it with the next message only.
        same = ("network.", "memory.", *(() if one is alpha else ("mlp.",)))
        for name in mine:
            if name.startswith(same):
                assert np.array_equal(mine[name], theirs[name]), name


def test_what_cannot_be_audited_is_said(runs: Runs, tmp_path: Path) -> None:
    config, folder = runs("alone")
    with pytest.raises(InputError, match="one party, and nothing leaves it"):
        attacks(config)
    config, folder = runs("joint")
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(RunFolder(tmp_path / "run").client("beta"))
    with pytest.raises(InputError, match="no state of party beta lies here"):
        open_parties(config, tmp_path / "run")
