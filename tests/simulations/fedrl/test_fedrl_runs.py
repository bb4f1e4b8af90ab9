"""Whole FedRL runs: equal runs write equal bytes, also when they are cut off anywhere, and nobody goes on alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message
from flwr.serverapp import Grid
from safetensors.numpy import load_file

from clients.party import PartyClient
from fedsuite.errors import RunFailed
from fedsuite.history import read_rows
from fedsuite.runs.folder import RunFolder
from tests.fedrl_runs import artefacts, config_of, play, recorded, settings_from
from tests.harness import Recorder, kill_and_resume

RUN: dict[str, Any] = {
    "parallel_episodes": 4, "num_rounds": 4, "round_length": 16, "step_limit": 5, "checkpoint_every": 2,
    "evaluate_every": 2,
}  # fmt: skip
VARIANTS: dict[str, dict[str, Any]] = {
    "corrected": {},
    "published-code": {"follow": "published-code"},
    "published-start": {"mlp_start": "published"},
    "wide-sum": {"mlp_hidden": 40},
    "three-parties": {"parties": 3, "mlp_updates": "joint"},
    "episodes": {"round_unit": "episodes", "round_length": 3, "test_noise": "noisy"},
    "patience": {"patience": 1, "num_rounds": 5, "evaluate_every": 1, "q_clip": 5.0},
    "dqn-full": {"method": "dqn-full"},
    "dqn-beta": {"method": "dqn-beta", "round_unit": "episodes", "round_length": 6},
    "fcn-alpha": {"method": "fcn-alpha"},
    "random": {"method": "random"},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_runs_write_equal_bytes_whether_parties_stay_in_memory_or_not(
    cache: Path, tmp_path: Path, variant: str
) -> None:
    changes = {**RUN, **VARIANTS[variant]}
    for name, resident in (("one", True), ("from-disk", False)):
        play(config_of(cache, tmp_path, name, **changes), resident=resident)
    one = artefacts(tmp_path, "one")
    assert artefacts(tmp_path, "from-disk") == one
    kept = {name.split("/")[1] for name in one if name.startswith("clients/")}
    roles = settings_from(config_of(cache, tmp_path, "one", **changes)).federation.roles
    assert kept == set(roles) and len(one) > 4


def test_another_seed_writes_other_bytes(cache: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        play(config_of(cache, tmp_path, f"seed-{seed}", num_rounds=1, seed=seed))
    zero, one = (artefacts(tmp_path, f"seed-{seed}") for seed in (0, 1))
    assert all(zero[name] != one[name] for name in zero)


class Cut(Recorder):
    """Raises when a message comes to its turn, before or after the party has answered it."""

    def __init__(self, inner: Grid, where: Mapping[str, Any], count: int, after: bool) -> None:
        super().__init__(inner)
        self.where, self.left, self.after = dict(where), count, after

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ids = list(message_ids)
        config = dict(self.sent[len(self.received)].content["config"])
        if all(config.get(k) == v for k, v in self.where.items()):
            self.left -= 1
            if self.left == 0:
                if self.after:
                    super().pull_messages(ids)
                raise KeyboardInterrupt
        return super().pull_messages(ids)


CUTS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "the first message of a round": ({"round": 3, "phase": "propose"}, 1, False),
    "alpha has acted": ({"round": 3, "phase": "act"}, 3, True),
    "beta has followed": ({"round": 4, "phase": "answer"}, 2, True),
    "alpha has learnt": ({"round": 3, "phase": "learn-first"}, 2, True),
    "beta has learnt": ({"round": 4, "phase": "learn"}, 3, True),
    "in a validation": ({"round": 4, "phase": "choose", "split": "valid"}, 2, True),
    "alpha has closed, beta has not": ({"round": 4, "phase": "close"}, 1, True),
    "all have closed": ({"round": 4, "phase": "close"}, 2, True),
    "in the first test": ({"split": "test", "phase": "look", "noisy": False}, 3, True),
    "in the noisy test": ({"split": "test", "phase": "choose", "noisy": True}, 2, False),
    "before the first round": ({"round": 1, "phase": "propose"}, 1, False),
}


@pytest.fixture(scope="module")
def whole(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    results = tmp_path_factory.mktemp("whole")
    play(config_of(cache, results, "run", **RUN))
    return artefacts(results, "run")


@pytest.mark.parametrize(
    ("cut", "resident"),
    [(cut, True) for cut in CUTS] + [(cut, False) for cut in list(CUTS)[3:7]],
)
def test_a_run_cut_off_anywhere_goes_on_to_the_same_bytes(
    cache: Path, tmp_path: Path, whole: dict[str, bytes], cut: str, resident: bool
) -> None:
    where, count, after = CUTS[cut]
    config = config_of(cache, tmp_path, "run", **RUN)
    with pytest.raises(KeyboardInterrupt):
        play(config, lambda grid: Cut(grid, where, count, after), resident)
    assert artefacts_that_are_there(tmp_path) != whole
    play({**config, "resume": str(tmp_path / "run")}, resident=resident)
    assert artefacts(tmp_path, "run") == whole


def artefacts_that_are_there(results: Path) -> dict[str, bytes]:
    model = results / "run" / "model.safetensors"
    assert not model.exists()
    model.write_bytes(b"")
    found = artefacts(results, "run")
    model.unlink()
    return found


def test_more_rounds_go_on_where_the_run_ended(
    cache: Path, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    play(config_of(cache, tmp_path, "run", **{**RUN, "num_rounds": 2}))
    resumed = {"resume": str(tmp_path / "run")}
    play({**config_of(cache, tmp_path, "run", **RUN), **resumed})
    assert artefacts(tmp_path, "run") == whole


@pytest.mark.parametrize("method", ["random", "oracle"])
def test_what_learns_nothing_is_not_trained(cache: Path, tmp_path: Path, method: str) -> None:
    """However many rounds there are: it is validated and tested, and its state stays as it began."""
    letters = recorded(config_of(cache, tmp_path, "run", **{**RUN, "method": method}))
    phases = {letter.phase for letter in letters}
    assert "scores" in phases and not phases & {"train-alone", "imitate"}
    kept = sorted((tmp_path / "run" / "clients" / "alpha").glob("*.safetensors"))
    first, last = (load_file(kept[n]) for n in (0, -1))
    assert all(np.array_equal(value, last[name]) for name, value in first.items())


# --- the partner is lost ---------------------------------------------------------------------------


class Silent(Recorder):
    """One message is never answered."""

    def __init__(self, inner: Grid, where: Mapping[str, Any]) -> None:
        super().__init__(inner)
        self.where = where

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        config = dict(self.sent[len(self.received)].content["config"])
        if self.where.items() <= config.items():
            return []
        return super().pull_messages(message_ids)


def failing(monkeypatch: pytest.MonkeyPatch, where: Mapping[str, Any]) -> None:
    """Make the party that gets this message raise."""
    fit = PartyClient.fit

    def raise_there(self: PartyClient, parameters: Any, config: dict[str, Any]) -> Any:
        if where.items() <= config.items():
            raise OSError("beta is gone")
        return fit(self, parameters, config)

    monkeypatch.setattr(PartyClient, "fit", raise_there)


LOST = {"round": 3, "phase": "answer", "exchange": 10}


@pytest.mark.parametrize("how", ["raise", "silent"])
def test_without_its_partner_alpha_does_not_train_on_and_the_run_can_be_resumed(
    cache: Path, tmp_path: Path, whole: dict[str, bytes], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(cache, tmp_path, "run", **RUN) | {"reply-deadline-s": 0.2}
    told = "error: OSError: beta is gone" if how == "raise" else "missing: no reply within 0.2 s"
    with pytest.raises(RunFailed) as failure, monkeypatch.context() as patch:
        if how == "raise":
            failing(patch, LOST)
        play(config, lambda grid: Silent(grid, LOST) if how == "silent" else grid)
    line = f"round 3, train: 0 of 1 replies usable, min-reply-fraction = 1; beta: {told}"
    assert str(failure.value) == line
    status = RunFolder(tmp_path / "run").status()
    assert (status["status"], status["error"]) == ("failed", line)
    sent = [r for r in read_rows(tmp_path / "run" / "history.jsonl") if r.get("kind") == "client"]
    assert (sent[-1]["name"], sent[-1]["status"]) == (
        "beta",
        "error" if how == "raise" else "missing",
    )
    # Nothing newer than the last round that all have closed lies on alpha's disk.
    versions = sorted(p.name for p in (tmp_path / "run" / "clients" / "alpha").glob("*"))
    assert versions[-1] == "round-000002.safetensors"
    play({**config, "resume": str(tmp_path / "run")})
    assert artefacts(tmp_path, "run") == whole


def test_after_an_error_alpha_has_learnt_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partner that fails with exchange 6's answer leaves alpha's weights as exchange 5 left them."""
    weights: list[np.ndarray] = []
    failing(monkeypatch, {"phase": "answer", "exchange": 6})
    fit = PartyClient.fit

    def watched(self: PartyClient, *arguments: Any) -> Any:
        answer = fit(self, *arguments)
        if self.site.role == "alpha":
            assert self.site.party is not None
            weights.append(self.site.party.network.state_dict()["output.bias"].numpy().copy())
        return answer

    monkeypatch.setattr(PartyClient, "fit", watched)
    config = config_of(cache, tmp_path, "run", **RUN)
    with pytest.raises(RunFailed):
        play(config)
    # The last two of alpha's messages: learn-first of exchange 5, and act of exchange 6.
    assert np.array_equal(weights[-1], weights[-2]) and not np.array_equal(weights[-2], weights[-3])


# --- processes -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_bytes(cache: Path, tmp_path: Path) -> None:
    """kill -9 somewhere in round 5 or later; the bytes are those of a run in this process."""
    changes = {**RUN, "num_rounds": 12}
    play(config_of(cache, tmp_path, "whole", **changes))
    kill_and_resume(tmp_path, config_of(cache, tmp_path, "killed", **changes), 4)
    assert artefacts(tmp_path, "killed") == artefacts(tmp_path, "whole")


@pytest.mark.parametrize(("rate", "diverges"), [(1e-3, False), (2.0, True)])
def test_a_loss_that_no_rewards_explain_shows(
    cache: Path, tmp_path: Path, rate: float, diverges: bool
) -> None:
    play(config_of(cache, tmp_path, learning_rate=rate, parallel_episodes=8))
    rows = read_rows(tmp_path / "run" / "history.jsonl")
    losses = [r["metrics"] for r in rows if "train.loss" in r.get("metrics", {})]
    worst = max(m["train.loss"] / m["train.loss-limit"] for m in losses)
    assert (worst > 1) == diverges, worst
