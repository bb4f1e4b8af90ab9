"""What users and partners can get wrong: one clear line that names the key, file, party or array; nothing is guessed."""

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from clients.party import PartyClient
from fedsuite.errors import InputError, RunFailed
from fedsuite.fedrl.gridworld.world import GridWorld
from fedsuite.fedrl.open_world import open_world
from fedsuite.roster.members import write_roster
from simulations.client_app import node_of
from simulations.commands import cli
from strategies.runtime.packing import packed_record
from tests.fedrl_runs import SYSTEM, config_of, play, settings_from
from tests.harness import Recorder, arrays_in, exit_code_of, prepared, toml_from

RUN: dict[str, Any] = {"parallel_episodes": 4, "num_rounds": 1, "step_limit": 4}


def told(config: dict[str, Any], error: type[Exception] = InputError) -> str:
    """The one line with which a run ends."""
    with pytest.raises(error) as failure:
        play(config)
    line = str(failure.value)
    assert "\n" not in line and len(line) < 400
    return line


SETTINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "corpus": ({"corpus": "iliad"}, ["corpus", '"iliad"', "wikihow"]),
    "method": ({"method": "fedavg"}, ["method", '"fedavg"', "fedrl"]),
    "parties": ({"parties": 4}, ["parties", "4"]),
    "three readers": ({"parties": 3, "world": "text2action"}, ["parties", "gridworld", "2"]),
    "replies": ({"min_reply_fraction": 0.5}, ["min-reply-fraction", "1"]),
    "texts nowhere": ({"world": "text2action", "corpus": "win2k"}, ["data.dir", "t2a_win2k.json.gz"]),
    "texts not read": ({"world": "text2action", "corpus": "generated", "data_dir": "d"}, ["data.dir", "generated"]),
    "episodes of imitation": ({"method": "fcn-full", "round_unit": "episodes"}, ["round-unit", "fcn-full", "steps"]),
    "episodes of chance": ({"method": "random", "round_unit": "episodes"}, ["round-unit", "random", "steps"]),
    "small memory": ({"batch_size": 200}, ["memory", "100"]),
    "many envs": ({"parallel_episodes": 200}, ["parallel-episodes"]),
    "discount": ({"discount": 1.0}, ["discount", "1"]),
    "switch": ({"distance": "euclid"}, ["distance", "manhattan"]),
    "probability": ({"noise_probability": 1.5}, ["noise-probability", "1.5"]),
    "a sum of random targets": ({"target_refresh": "published"}, ["mlp-start", "target-refresh", '"all"']),
    "a sum of random targets, by the code": ({"follow": "published-code", "mlp_start": "sum"}, ["mlp-start", '"all"']),
    "narrow sum": ({"mlp_hidden": 31}, ["network.mlp-hidden", "31", "32", '"published"']),
    "narrow sum of texts": ({"world": "text2action", "mlp_hidden": 3}, ["network.mlp-hidden", "3", "4", "0"]),
    "start": ({"mlp_start": "zero"}, ["mlp-start", "sum", "published"]),
    "few words": ({"world": "text2action", "corpus": "generated", "max_words": 4}, ["max-words: 4", "0, or to 5 or more"]),
    "oracle of shifted starts": ({"method": "oracle", "starts": "shifted"}, ["starts", "oracle", "exact"]),
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
def test_settings_that_cannot_work_are_refused_by_the_command_line(
    cache: Path,
    tmp_path: Path,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes, words = SETTINGS[case]
    values = {"cache-dir": str(cache), "memory": 100, "maps": 200, **changes}
    toml = tmp_path / "run.toml"
    toml.write_text(toml_from({"system": "tests.fedrl_runs:SYSTEM"}, **values))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["fedsuite", "run", str(toml), "--engine", "inprocess"])
    assert exit_code_of(cli.main) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert all(word in error for word in words), error
    assert not (tmp_path / "runs" / "run" / "model.safetensors").exists()


def test_files_that_are_not_there_are_named(cache: Path, tmp_path: Path) -> None:
    line = told(config_of(cache, tmp_path, "maps", data_dir=str(tmp_path)))
    assert str(tmp_path / "frl_grid_8.npz") in line or "frl_grid" in line
    texts = {"world": "text2action", "corpus": "win2k", "data_dir": str(tmp_path)}
    assert "t2a_win2k.json.gz" in told(config_of(cache, tmp_path, "texts", **texts))


def test_files_that_are_damaged_are_named(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "frl_grid_8.npz").write_bytes(b"no archive")
    line = told(config_of(cache, tmp_path, "maps", data_dir=str(tmp_path)))
    assert "frl_grid_8.npz" in line
    with gzip.open(tmp_path / "t2a_win2k.json.gz", "wt") as file:
        file.write('{"texts": 3}')
    texts = {"world": "text2action", "corpus": "win2k", "data_dir": str(tmp_path)}
    assert "t2a_win2k.json.gz" in told(config_of(cache, tmp_path, "texts", **texts))


# --- parties that do not fit together --------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("history", 4),
        ("train-episodes", 3),
        ("shared-maps", "0123abcd"),
        ("step-limit", 9),
        ("longest", 7),
    ],
)
def test_worlds_that_differ_are_told_before_anything_is_learnt(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: object
) -> None:
    ask = PartyClient.get_properties

    def other(self: PartyClient, config: dict[str, Any]) -> dict[str, Any]:
        changed = {key: value} if self.site.role == "beta" else {}
        return {**ask(self, config), **changed}

    monkeypatch.setattr(PartyClient, "get_properties", other)
    line = told(config_of(cache, tmp_path, **RUN))
    assert line.startswith(f"party beta: {key} is {value}, party alpha has ")
    assert line.endswith("give all parties the same data and settings")


def test_maps_of_another_seed_are_another_world(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beta has as many maps, of the same size, but others: the digest tells."""
    config = config_of(cache, tmp_path, "other", generated_seed=5, maps=200)
    prepared(config)
    elsewhere = open_world(settings_from(config))
    ask = PartyClient.get_properties

    def other(self: PartyClient, config: dict[str, Any]) -> dict[str, Any]:
        if self.site.role == "beta":
            self.site.world = elsewhere
        return ask(self, config)

    monkeypatch.setattr(PartyClient, "get_properties", other)
    line = told(config_of(cache, tmp_path, **RUN))
    assert line.startswith("party beta: ") and "party alpha has" in line


def test_a_node_that_is_no_party_is_told(cache: Path, tmp_path: Path) -> None:
    config = config_of(cache, tmp_path, roster=str(tmp_path / "roster.json"))
    settings = settings_from(config)
    write_roster(tmp_path / "roster.json", prepared(config))
    with pytest.raises(InputError, match=r"node-config party: 'delta' .* \['alpha', 'beta'\]"):
        node_of(SYSTEM, settings, {"party": "delta"})
    beta = node_of(SYSTEM, settings, {"party": "beta", "partition-id": 0})
    assert (beta.partition, beta.member.role) == (1, "beta")
    assert beta.folder == tmp_path / "run" / "clients" / "beta"


# --- answers that must not be used -----------------------------------------------------------------


class Spoilt(Recorder):
    """Changes one array of the answer to one message."""

    def __init__(self, inner: Any, phase: str, name: str, change: Callable[[Any], Any]) -> None:
        super().__init__(inner)
        self.phase, self.name, self.change = phase, name, change

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        config = dict(self.sent[len(self.received)].content.get("config", {}))
        replies = list(super().pull_messages(message_ids))
        at = int(str(config.get("exchange", 0))) >= 3 or self.phase == "look"
        if config.get("phase") == self.phase and at:
            for reply in replies:
                arrays = arrays_in(reply)
                arrays[self.name] = self.change(arrays[self.name])
                reply.content["arrays"] = packed_record(arrays)
        return replies


def with_nan(array: np.ndarray) -> np.ndarray:
    spoilt = array.copy()
    spoilt.flat[3] = np.nan
    return spoilt


ANSWERS: dict[str, tuple[str, str, Callable[[Any], Any], str]] = {
    "shape": ("answer", "q", lambda a: a[:, :-1], "beta: rejected: array q has shape (4, 7, 16), expected (4, 8, 16)"),
    "nan": ("answer", "q-next", with_nan, "beta: rejected: array q-next holds NaN or infinity"),
    "nan in the MLP": ("learn", "mlp.output.bias", with_nan, "beta: rejected: array mlp.output.bias holds NaN"),
    "nan in a proposal": ("learn", "proposal", with_nan, "beta: rejected: array proposal holds NaN"),
    "targets": ("learn-first", "targets", with_nan, "alpha: rejected: array targets holds NaN"),
    "actions": ("act", "actions", lambda a: a[:-1], "alpha: rejected: array actions has shape (3,), expected (4,)"),
    "a look": ("look", "q", lambda a: a[:, :3], "beta: rejected: array q has shape (5, 3), expected (5, 16)"),
    "ids": ("act", "ids", lambda a: a + 1000, "alpha: rejected: ids holds numbers from 1000 to 1015, expected whole ones"),
}  # fmt: skip


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_that_must_not_be_used_names_party_and_array(
    cache: Path, tmp_path: Path, case: str
) -> None:
    phase, name, change, words = ANSWERS[case]
    config = config_of(cache, tmp_path, **RUN)
    with pytest.raises(RunFailed) as failure:
        play(config, lambda grid: Spoilt(grid, phase, name, change))
    line = str(failure.value)
    assert line.startswith("round 1, train: ") and words in line and "\n" not in line
    play({**config, "resume": str(tmp_path / "run")})


def test_no_judge_is_made_for_a_partner(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a whole run; alpha, which makes one, comes to grief if it is forbidden."""
    now: list[str] = []
    fit, reward_function = PartyClient.fit, GridWorld.reward_function
    asked: list[str] = []

    def watched(self: PartyClient, *arguments: Any) -> Any:
        now.append(self.site.role)
        try:
            return fit(self, *arguments)
        finally:
            now.pop()

    def noted(self: GridWorld, *arguments: Any) -> Any:
        asked.append(now[-1])
        return reward_function(self, *arguments)

    monkeypatch.setattr(PartyClient, "fit", watched)
    monkeypatch.setattr(GridWorld, "reward_function", noted)
    play(config_of(cache, tmp_path, parties=3, **RUN))
    assert set(asked) == {"alpha"}
