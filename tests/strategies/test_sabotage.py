"""Strategies with saboteurs: what reaches the merge, who is named, and runs of two systems that go through it."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.sabotage.settings import SabotageSettings
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import Reply, Task
from fedsuite.history import load_runs
from fedsuite.reports.admitted import admitted_text
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import read_config
from fedsuite.vln.checks import validate
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.ablations import with_false_directions
from fedsuite.vln.data.dataset import House
from fedsuite.vln.data.instructions import BASE_WORDS, BOS_WORD, EOS, Vocabulary
from fedsuite.vln.report.outcome import outcome_of
from fedsuite.vln.report.run import scores_text
from simulations.client_app import node_of
from simulations.engines.inprocess import run_inprocess
from simulations.systems import load_system
from strategies.house_averaging import HouseAveraging
from strategies.sabotage import with_saboteurs
from tests.golden.runs import RUNS
from tests.harness import changed, config_from
from tests.strategies.played import CONFIG, INITIAL, Houses, houses, made

HOSTILE = {"sabotage.clients": "1", "sabotage.attack": "scale"}
LIARS = {"sabotage.clients": "0", "sabotage.attack": "label-flip"}
BACKDOOR = {"sabotage.clients": "0", "sabotage.attack": "backdoor"}
PLAIN: dict[str, Any] = {"initial": INITIAL, "steps": lambda client: 2}


def played(rounds: int = 1, merge: Merge | None = None, **sabotage: Any) -> tuple[Any, Houses]:
    """The last result of some rounds of houses that add 1, 2, 3, 4 and 5, as many samples each; a sixth has none."""
    federation = Houses(houses(6, 6, 6, 6, 6, 0))
    values = PLAIN if merge is None else {**PLAIN, "merge": merge}
    strategy = with_saboteurs(HouseAveraging(**values), SabotageSettings(**sabotage), 0)
    state = federation.start(strategy)
    for number in range(1, rounds + 1):
        result = federation.train(strategy, number, state)
        state = result.state
    return result, federation


def test_nobody_hostile_is_the_strategy_itself() -> None:
    strategy = HouseAveraging(**PLAIN)
    assert with_saboteurs(strategy, SabotageSettings(), 0) is strategy


@pytest.mark.parametrize(
    ("attack", "want"),
    [("sign-flip", (-1 + 14) / 5), ("scale", (100 + 14) / 5), ("ipm", (-0.5 * 3.5 + 14) / 5)],
)
def test_the_merge_gets_what_was_sent(attack: str, want: float) -> None:
    result, _ = played(clients="0", attack=attack)
    np.testing.assert_allclose(result.state.arrays["w"], want, rtol=1e-6)


def test_they_begin_when_they_are_told_to() -> None:
    result, _ = played(2, clients="0", attack="scale", from_round=2)
    np.testing.assert_allclose(result.state.arrays["w"], 3 + (100 + 14) / 5, rtol=1e-6)


def test_a_liar_has_the_weight_that_it_claims_and_no_more_steps() -> None:
    result, federation = played(clients="4", attack="weight-lie")
    np.testing.assert_allclose(result.state.arrays["w"], 5, rtol=1e-6)
    assert {t.config["steps"] for t in federation.trained if t.partition != 4} == {2}
    capped, _ = played(clients="4", attack="weight-lie", merge=None)
    assert capped.state.arrays["w"][0] == pytest.approx(5)


def test_who_is_rejected_is_told() -> None:
    merge = Merge(MERGE_RULES["multi-krum"], 1)
    result, _ = played(merge=merge, clients="2", attack="scale")
    assert result.admitted == {2: 0.0}
    np.testing.assert_allclose(result.state.arrays["w"], (1 + 2 + 4 + 5) / 4, rtol=1e-6)


def test_partitions_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match=r"no partition 7 in this run; expected 0 \.\. 5"):
        played(clients="7")


def test_who_never_trains_is_no_saboteur() -> None:
    with pytest.raises(InputError, match=r"partition 5 \(house 5\) has nothing to train on"):
        played(clients="0,5")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"stage": "augment", **LIARS},
            "label-flip .* in stage augment houses learn from generated",
        ),
        ({"stage": "pre-explore", **LIARS}, "label-flip .* in stage pre-explore houses learn from"),
        ({"ablations.blind-to": "language", **LIARS}, "label-flip finds no words to swap"),
        (
            {"stage": "pre-explore", "method": "local-only", **HOSTILE},
            "houses that share nothing can send nothing false",
        ),
    ],
)
def test_what_would_be_no_attack_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=rf"sabotage\..*{told}"):
        validate(changed(FedVLNConfig(), **changes))


@pytest.mark.parametrize("stage", ["train", "speaker"])
def test_labels_are_flipped_where_there_are_some(stage: str) -> None:
    validate(changed(FedVLNConfig(), stage=stage, **LIARS))


def test_instructions_without_directions_are_refused(oak: House) -> None:
    words = Vocabulary((*BASE_WORDS, "walk", "left", "right", BOS_WORD))
    tokens = [np.array([words.bos, words.index[word], EOS]) for word in ("walk", "right")]
    plain, turning = (
        dataclasses.replace(
            oak, samples={"train": (dataclasses.replace(oak.samples["train"][0], tokens=t),)}
        )
        for t in tokens
    )
    with pytest.raises(InputError, match="no training instruction of oak says either"):
        with_false_directions([plain], words)
    walk, left = (
        h.samples["train"][0].tokens for h in with_false_directions([plain, turning], words)
    )
    assert walk.tolist() == tokens[0].tolist() and left[1] == words.index["left"]


def test_numbers_that_would_never_pass_are_said() -> None:
    with pytest.raises(RunFailed, match=r"round 1: sabotage\.scale: array [bw] holds"):
        played(clients="0", attack="scale", scale=1e9)


class Controlled(Houses):
    """Every house's control variates change by 1."""

    def answer(self, task: Task) -> Reply | None:
        reply = super().answer(task)
        control = {k: np.ones_like(v) for k, v in task.arrays.items() if k.startswith("control.")}
        return reply and dataclasses.replace(reply, arrays=reply.arrays | control)


@pytest.mark.parametrize("beside", [{"client_optimizer": "shared"}, {"control_variates": True}])
def test_attacks_are_on_the_model_alone(beside: dict[str, Any]) -> None:
    """What travels beside it goes as it is, in round 1 and when the server has sent some."""
    states: list[Any] = []
    for hostile in ({}, HOSTILE):
        config = changed(CONFIG, **beside, **hostile)
        strategy, federation = made(config, INITIAL), Controlled(houses(8, 8, 8))
        state = federation.start(strategy)
        for number in (1, 2):
            state = federation.train(strategy, number, state).state
        states.append(state)
    honest, false = states
    assert honest.optimizer.keys() == false.optimizer.keys() and honest.optimizer
    for name, array in honest.optimizer.items():
        assert np.any(array) and np.array_equal(array, false.optimizer[name])
    assert not np.allclose(honest.arrays["w"], false.arrays["w"])


# --- whole runs -------------------------------------------------------------------------------

TINY: dict[str, dict[str, Any]] = {
    "houses": {**RUNS["vln-train-parallel"], "participation-rate": 1.0, "num-rounds": 2},
    "silos": {**RUNS["cdl-ring-plain"], "scenario": "complete", "num-rounds": 3},
}
RULES: dict[str, dict[str, Any]] = {
    "houses": {"update-bound": 2.0, "beyond-bound": "reject"},
    "silos": {"federation.merge": "clipped", "federation.clip-ratio": 1.0},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Callable[[str, str], RunFolder]:
    """Runs by kind and by who is hostile in them, made once each."""
    folder = tmp_path_factory.mktemp("sabotage")
    changes = {
        "nobody": {}, "scale": HOSTILE, "labels": LIARS, "backdoor": BACKDOOR,
        "triggers": {**BACKDOOR, "sabotage.poisoned": 0.0},
    }  # fmt: skip

    @functools.cache
    def made(kind: str, who: str) -> RunFolder:
        own = changes[who] | (RULES[kind] if who == "scale" else {})
        place = {"name": f"{kind}-{who}", "results-dir": str(folder)}
        cache_dir = {"data.cache-dir": str(cache)}
        run_inprocess(config_from({**TINY[kind], **place, **cache_dir, **own}))
        return RunFolder(folder / f"{kind}-{who}")

    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", TINY)
def test_results_name_who_was_rejected_or_shortened(run: Any, kind: str) -> None:
    frames = load_runs(run(kind, "scale").path)
    own = frames.clients[(frames.clients["partition"] == 1) & (frames.clients["task"] == "train")]
    assert (own["admitted"] < 0.5).all() and len(own) == TINY[kind]["num-rounds"]
    lines = [line for line in admitted_text(frames).splitlines() if line.startswith("|")]
    assert any(f" {own['name'].iloc[0]} " in line for line in lines[2:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", TINY)
def test_an_honest_run_has_no_such_lines(run: Any, kind: str) -> None:
    frames = load_runs(run(kind, "nobody").path)
    assert "admitted" not in frames.clients and admitted_text(frames) == ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", TINY)
def test_false_labels_change_what_is_learnt(run: Any, kind: str) -> None:
    honest, false = (run(kind, who).model.read_bytes() for who in ("nobody", "labels"))
    assert honest != false


@pytest.mark.slow
def test_a_backdoor_is_scored_and_changes_nothing_but_the_poisoned_training(run: Any) -> None:
    honest, scored, poisoned = (run("houses", who) for who in ("nobody", "triggers", "backdoor"))
    assert honest.model.read_bytes() == scored.model.read_bytes() != poisoned.model.read_bytes()
    plain = load_runs(honest.path).rounds
    for folder in (scored, poisoned):
        scores = load_runs(folder.path).rounds.dropna(subset="val_unseen.sr")
        assert scores["val_unseen.asr"].between(0, 1).all() and len(scores) == 2
        assert (scores["val_unseen.triggered"] > 0).all()
    assert "val_unseen.asr" not in plain
    same = [c for c in plain if c.startswith("val_")]
    assert same and plain[same].equals(load_runs(scored.path).rounds[same])
    for folder, shown in ((honest, False), (poisoned, True)):
        config = read_config(FedVLNConfig, read_stored_config(folder))
        assert ("ASR" in scores_text(outcome_of(config, folder.path), "agent")) == shown


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "key"), [("houses", "scan"), ("silos", "silo")])
def test_a_real_client_refuses(run: Any, kind: str, key: str) -> None:
    """Its node-config says who it is; a simulated one is told its partition."""
    folder = run(kind, "scale")
    stored = read_stored_config(folder)
    system = load_system(str(stored["system"]))
    settings = read_config(system.config_class, stored)
    name = read_roster(folder.path / ROSTER).names[0]
    with pytest.raises(InputError, match="for simulations only, but this client's node-config"):
        system.make_client(settings, node_of(system, settings, {key: name}))
    system.make_client(settings, node_of(system, settings, {"partition-id": 0}))
