"""Episodes of finished runs: played again they give the run's own test scores, and their parts fit together."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fedsuite.errors import InputError
from fedsuite.fedrl.gridworld.episode import GridEpisode, moves_of
from fedsuite.fedrl.player import Player
from fedsuite.fedrl.report.episodes import lines_of, shown_steps, still
from fedsuite.fedrl.text2action.episode import TextEpisode
from fedsuite.history.finished import closing_metrics
from fedsuite.runs.folder import RunFolder
from tests.fedrl_runs import config_of, play

pytestmark = pytest.mark.drawn

Runs = Callable[[str], Path]
TEXT: dict[str, Any] = {
    "world": "text2action", "max_words": 12, "parallel_episodes": 8, "round_length": 64, "num_rounds": 1
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "two": {"evaluate_every": 1},
    "three": {"parties": 3, "test_noise": "noisy", "num_rounds": 1},
    "full": {"method": "dqn-full", "test_noise": "none", "num_rounds": 1, "evaluate_every": 0},
    "beta": {"method": "dqn-beta", "num_rounds": 1},
    "names": TEXT,
    "arguments": TEXT | {"task": "arguments", "parallel_episodes": 4},
}
NOISY = {"both": (False, True), "none": (False,), "noisy": (True,)}


@pytest.fixture(scope="module")
def runs(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The finished run of a variant, made once."""
    results = tmp_path_factory.mktemp("played")

    def run(name: str) -> Path:
        if not (results / name).exists():
            play(config_of(cache, results, name, **VARIANTS[name]))
        return results / name

    return run


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_tests_episodes_give_the_runs_own_scores(runs: Runs, variant: str) -> None:
    run = runs(variant)
    closing = closing_metrics(RunFolder(run))
    for noisy in NOISY[VARIANTS[variant].get("test_noise", "both")]:
        player = Player.of_run(run, noisy)
        label = "test-noisy." if noisy else "test."
        own = {k.removeprefix(label): v for k, v in closing.items() if k.startswith(label)}
        assert player.scores() == own and len(own) > 5
        assert player.plan.best == (closing["best-round"] > 0)


def test_an_episodes_windows_moves_and_rewards_fit_together(runs: Runs) -> None:
    player = Player.of_run(runs("two"))
    assert player.num_episodes == 5
    rewards = []
    for number in range(5):
        episode = player.episode(number)
        assert isinstance(episode, GridEpisode) and episode.number == number
        rewards.append(sum(step.reward for step in episode.steps))
        for t, step in enumerate(episode.steps):
            assert step.joint.argmax() == step.action and step.q.keys() == {"alpha", "beta"}
            for agent, name in enumerate(("alpha", "beta")):
                row, col = episode.cells[t, agent]
                window = episode.windows[name][t, -1]
                reach = len(window) // 2
                padded = np.pad(episode.grid, reach)
                around = padded[row : row + len(window), col : col + len(window)]
                assert (window == around).all()
                after = episode.cells[t + 1, agent] - episode.cells[t, agent]
                way = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
                assert tuple(after) in {(0, 0), way[moves_of(step.action)[agent]]}
        for t in (0, None):
            chart = still(episode, t).axes[0]
            assert (chart.get_xlim(), chart.get_ylim()) == ((-0.5, 7.5), (7.5, -0.5))
        apart = np.abs(np.diff(episode.cells[-1], axis=0)).sum()
        assert episode.met == (apart <= 1) and (episode.met or len(episode.steps) == 6)
    assert np.mean(rewards) == pytest.approx(player.scores()["average-reward"])


def test_the_third_party_has_values_but_no_window(runs: Runs) -> None:
    episode = Player.of_run(runs("three")).episode(1)
    assert isinstance(episode, GridEpisode)
    assert [*episode.steps[0].q] == ["alpha", "beta", "gamma"] and [*episode.windows] == [
        "alpha",
        "beta",
    ]
    assert len(still(episode, 0).axes) == 1 + 2 + 4
    alone = Player.of_run(runs("beta")).episode(0)
    assert isinstance(alone, GridEpisode) and [*alone.windows] == ["beta"]
    assert (alone.steps[0].joint == alone.steps[0].q["beta"]).all()
    assert len(still(alone).axes) == 1 + 1 + 1


@pytest.mark.parametrize("task", ["names", "arguments"])
def test_words_that_are_hit_add_up_to_the_runs_own_counts(runs: Runs, task: str) -> None:
    player = Player.of_run(runs(task))
    found = {"right": 0, "tagged": 0}
    for number in range(player.num_episodes):
        episode = player.episode(number)
        assert isinstance(episode, TextEpisode) and len(episode.words) == len(episode.steps)
        hits, wrong = (episode.outcomes.count(o) for o in ("hit", "false alarm"))
        assert hits == episode.scores["right"] and hits + wrong == episode.scores["tagged"]
        found["right"] += hits
        found["tagged"] += hits + wrong
        for label, outcome, step in zip(
            episode.labels, episode.outcomes, episode.steps, strict=True
        ):
            if label == "required" and task == "names":
                assert outcome == ("hit" if step.action else "missed")
    assert found == {k: player.scores()[k] for k in found}
    lines = lines_of(player.episode(0))
    assert len(lines) == len(player.episode(0).words) + 1 and lines[-1].startswith("F1 ")
    figure = still(player.episode(0), 3)
    words, values = figure.axes
    assert {t.get_text() for t in words.texts} >= set(player.episode(0).words)
    assert values.get_ylabel() == "Q(select) -\nQ(neglect)" and len(values.patches) == 4


def test_a_run_that_cannot_be_played_is_refused(runs: Runs, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no test with noise \(privacy.test-noise = none\)"):
        Player.of_run(runs("full"), noisy=True)
    with pytest.raises(InputError, match="the test has episodes 0 to 4, got 5"):
        Player.of_run(runs("full")).episode(5)
    with pytest.raises(InputError, match="steps 0 to"):
        still(Player.of_run(runs("full")).episode(0), 99)
    copy = tmp_path / "copy"
    shutil.copytree(runs("two"), copy)
    shutil.rmtree(copy / "clients" / "beta")
    with pytest.raises(InputError, match="no network of party beta lies here, as parties of real"):
        Player.of_run(copy)
    (copy / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match=r"model.safetensors: damaged .*put it back from a copy"):
        Player.of_run(copy)


def test_the_command_prints_the_steps_and_draws_what_moves(
    runs: Runs, tmp_path: Path, call: Callable[..., tuple[int, str, str]]
) -> None:
    run, file = str(runs("two")), tmp_path / "episode.gif"
    steps = len(Player.of_run(run).episode(2).steps)
    code, out, err = call("play", run, "--episode", "2", "-o", str(file), engine=False)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", steps + 2), err
    assert lines[0].startswith("step  1  alpha (") and " together " in lines[0]
    assert "met" in lines[-2] and lines[-1] == f"drawn: {file}"
    with Image.open(file) as moving:
        assert (moving.n_frames, moving.info["loop"]) == (steps + 1, 0)
        assert moving.info["duration"] in (400, 2500) and moving.size == (688, 320)
    code, out, err = call("play", run, "-o", str(file), engine=False)
    assert (code, out) == (2, "") and "is there already, nothing in it was touched" in err
    before = file.read_bytes()
    code, _, err = call("play", run, "-o", str(file), "--overwrite", engine=False)
    assert (code, err) == (0, "") and file.read_bytes() != before  # of another episode
    late = ("--step", str(steps + 1), "-o", str(tmp_path / "x.png"))
    code, out, err = call("play", run, "--episode", "2", *late, engine=False)
    assert code == 2 and f"--step: episode 2 has steps 1 to {steps}, got {steps + 1}" in err
    code, out, err = call("play", run, "--step", "1", engine=False)
    assert code == 2 and "--step: chooses what a still shows" in err
    code, out, err = call("play", run, "-o", str(tmp_path / "x.bmp"), engine=False)
    assert code == 2 and "cannot draw this format; use one of .gif, .png" in err


def test_long_episodes_are_shown_in_larger_steps() -> None:
    assert shown_steps(7) == [*range(7)]
    assert shown_steps(352)[:3] == [0, 4, 8] and len(shown_steps(352)) == 88
