import json
from pathlib import Path

import numpy as np
import pytest

from fedsuite import checkpoint
from fedsuite.arrays import fingerprint
from fedsuite.checkpoint import RunState
from fedsuite.errors import InputError
from fedsuite.federation import ServerState


def state(round: int) -> RunState:
    arrays = {
        "z.weight": np.full((2, 3), round, np.float32),
        "a.count": np.array(round, np.int64),
        "m.mask": np.array([True, False]),
        "t": np.arange(6, dtype=np.float64).reshape(2, 3).T,  # not C-contiguous
        "empty": np.zeros((0, 4), np.float32),
    }
    scalars = {"seen": round, "rate": 0.1, "name": "x", "on": True}
    return RunState(round, ServerState(arrays, scalars), "digest")


def test_round_trip_keeps_everything(tmp_path: Path) -> None:
    saved = state(3)
    checkpoint.save(tmp_path, saved)
    loaded = checkpoint.latest(tmp_path)
    assert loaded is not None
    assert list(loaded.state.arrays) == list(saved.state.arrays)
    assert fingerprint(loaded.state.arrays) == fingerprint(saved.state.arrays)
    assert loaded.state.arrays["a.count"].shape == ()
    assert dict(loaded.state.scalars) == dict(saved.state.scalars)
    assert (loaded.round, loaded.config_digest) == (3, "digest")


def test_no_arrays_at_all(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, RunState(0, ServerState({}), "d"))
    loaded = checkpoint.latest(tmp_path)
    assert loaded is not None and loaded.state.arrays == {}


def test_keeps_first_and_last_two(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path) is None
    assert checkpoint.needed(tmp_path) == [0]
    for number in (0, 2, 4, 6, 8):
        checkpoint.save(tmp_path, state(number))
    assert checkpoint.rounds(tmp_path) == [0, 6, 8]
    assert min(checkpoint.needed(tmp_path)) == 6


def test_saving_a_round_again_replaces_it(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, RunState(1, ServerState({"w": np.zeros(1)}), "old"))
    checkpoint.save(tmp_path, state(1))
    loaded = checkpoint.latest(tmp_path)
    assert loaded is not None and loaded.config_digest == "digest"


def test_discard_after_drops_later_rounds_and_leftovers(tmp_path: Path) -> None:
    for number in (0, 1, 2):
        checkpoint.save(tmp_path, state(number))
    (tmp_path / ".round-000003.77.partial").mkdir()
    checkpoint.discard_after(tmp_path, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round-000000", "round-000001"]


def test_an_interrupted_write_is_never_taken_for_a_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(1))
    (tmp_path / ".round-000002.77.partial").mkdir()
    loaded = checkpoint.latest(tmp_path)
    assert loaded is not None and loaded.round == 1


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _edit_scalar(path: Path) -> None:
    manifest = json.loads(path.read_text())
    manifest["scalars"]["seen"] = 99
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("arrays.safetensors", _flip),
        ("arrays.safetensors", _cut),
        ("arrays.safetensors", Path.unlink),
        ("state.json", _cut),
        ("state.json", _edit_scalar),
        ("state.json", Path.unlink),
        ("state.json", lambda path: path.write_text("[]")),
    ],
)
def test_damage_is_reported_with_file_and_cure(tmp_path: Path, name: str, damage) -> None:
    for number in (0, 1):
        checkpoint.save(tmp_path, state(number))
    damage(tmp_path / "round-000001" / name)
    with pytest.raises(InputError) as caught:
        checkpoint.latest(tmp_path)
    text = str(caught.value)
    assert f"round-000001/{name}: damaged checkpoint" in text
    assert f"delete {tmp_path / 'round-000001'}" in text and "--overwrite" in text


def test_other_format_is_reported(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, state(1)) / "state.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    manifest["format"] = 99
    path.write_text(json.dumps(checkpoint._with_own_digest(manifest)))
    with pytest.raises(InputError, match="checkpoint format 99, this version reads 1"):
        checkpoint.latest(tmp_path)
