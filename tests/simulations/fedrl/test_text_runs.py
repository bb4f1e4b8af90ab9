"""Whole runs of Text2Action: every method, names and arguments, through the app."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from fedsuite.arrays import under_prefix
from fedsuite.history import load_runs
from tests.fedrl_runs import artefacts, config_of, play

SHORT: dict[str, Any] = {
    "world": "text2action", "max_words": 12, "parallel_episodes": 8, "round_length": 64, "test_noise": "both",
}  # fmt: skip


@pytest.mark.parametrize("task", ["names", "arguments"])
def test_fedrl_reads_texts_and_equal_runs_write_equal_bytes(
    cache: Path, tmp_path: Path, task: str
) -> None:
    found = []
    for name in ("a", "b"):
        play(config_of(cache, tmp_path / name, task=task, num_rounds=1, **SHORT))
        found.append(artefacts(tmp_path / name, "run"))
    assert found[0] == found[1]
    ended = load_runs(tmp_path / "a" / "run").closing.iloc[-1]
    for test in ("test", "test-noisy"):
        assert 0 <= ended[f"{test}.f1"] <= 1 and ended[f"{test}.total"] > 20
        assert ended[f"{test}.right"] <= min(ended[f"{test}.tagged"], ended[f"{test}.total"])
    kept = load_file(tmp_path / "a" / "run" / "clients" / "beta" / "round-000001.safetensors")
    assert {"taps", "hidden.weight"} <= under_prefix(kept, "network.").keys()
    assert "pos_embedding" not in under_prefix(kept, "network.")  # tags are alpha's


@pytest.mark.parametrize("method", ["dqn-alpha", "dqn-full", "fcn-full", "random", "oracle"])
def test_the_baselines_read_texts(cache: Path, tmp_path: Path, method: str) -> None:
    rounds = 0 if method in ("random", "oracle") else 1
    play(config_of(cache, tmp_path, method=method, num_rounds=rounds, **SHORT))
    ended = load_runs(tmp_path / "run").closing.iloc[-1]
    if method == "oracle":
        assert ended["test.f1"] == 1.0
    elif method == "random":
        assert 0.1 < ended["test.f1"] < 0.5
    else:
        assert load_runs(tmp_path / "run").rounds["train.updates"].iloc[-1] >= 40


def test_imitation_learns_to_read(cache: Path, tmp_path: Path) -> None:
    settings = SHORT | {"round_length": 300, "learning_rate": 0.003}
    play(config_of(cache, tmp_path, method="fcn-full", num_rounds=1, **settings))
    random = 0.35  # the random policy's F1 on these texts is 0.28
    assert load_runs(tmp_path / "run").closing["test.f1"].iloc[-1] > random + 0.2
