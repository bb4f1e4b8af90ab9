"""Private states of clients and checkpoints of the server, on disk."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedsuite.runs.versions
from fedsuite.arrays import Arrays, fingerprint
from fedsuite.errors import InputError
from fedsuite.federation import ServerState
from fedsuite.runs.versions import Checkpoints, RunState, Versions


def arrays(value: int) -> Arrays:
    return {
        "z.weight": np.full((2, 3), value, np.float32),
        "a.count": np.array(value, np.int64),
        "m.mask": np.array([True, False]),
        "t": np.arange(6, dtype=np.float64).reshape(2, 3).T,  # not C-contiguous
        "empty": np.zeros((0, 4), np.float32),
    }


SCALARS = {"seen": 3, "rate": 0.1, "name": "x", "on": True}


def with_rounds(folder: Path, *rounds: int) -> Versions:
    versions = Versions(folder / "site")
    for number in rounds:
        versions.save(number, arrays(number), {**SCALARS, "round": number, "plan": [1, {"a": 2}]})
    return versions


def state(round: int) -> RunState:
    return RunState(round, ServerState(arrays(round), SCALARS), "digest")


def with_checkpoints(folder: Path, *rounds: int) -> Checkpoints:
    checkpoints = Checkpoints(folder)
    for number in rounds:
        checkpoints.save_state(state(number))
    return checkpoints


# --- any state -----------------------------------------------------------------------------------


def test_nothing_before_anything_was_saved(tmp_path: Path) -> None:
    versions = Versions(tmp_path / "site")
    assert versions.load(5) is None
    versions.prune([3])
    versions.rollback(0)
    assert not (tmp_path / "site").exists()


def test_load_gives_the_newest_version_before_a_round(tmp_path: Path) -> None:
    versions = with_rounds(tmp_path, 2, 4, 5)
    for before, expected in ((3, 2), (4, 2), (5, 4), (6, 5), (99, 5)):
        found = versions.load(before)
        assert found is not None
        assert fingerprint(found[0]) == fingerprint(arrays(expected))
        assert list(found[0]) == list(arrays(expected)) and found[0]["a.count"].shape == ()
        assert found[1] == {**SCALARS, "round": expected, "plan": [1, {"a": 2}]}
    assert versions.load(2) is None


def test_files_of_other_names_are_no_versions(tmp_path: Path) -> None:
    versions = with_rounds(tmp_path, 2)
    for name in (
        "round-000009",
        "000009.safetensors",
        "9",
        "round-9.safetensors",
        "round-.safetensors",
    ):
        (versions.folder / name).write_bytes(b"")
    assert versions.rounds() == [2]
    versions.prune([2])
    assert len(list(versions.folder.iterdir())) == 6


def test_what_is_missing_is_said_with_what_it_was(tmp_path: Path) -> None:
    versions = Versions(tmp_path, "oak", "see to it")
    with pytest.raises(InputError) as caught:
        versions.load(3, least=2)
    assert str(caught.value) == (
        f"{versions.path(2)}: missing private state of oak, which trained in round 2; see to it"
    )
    assert "of this client, which the run began with; " in str(Versions(tmp_path).missing(0))


def test_saving_a_round_twice_keeps_the_second(tmp_path: Path) -> None:
    versions = with_rounds(tmp_path, 1)
    versions.save(1, arrays(7), {})
    found = versions.load(2)
    assert found is not None and found[0]["a.count"] == 7


def test_equal_states_are_equal_bytes(tmp_path: Path) -> None:
    one, two = Versions(tmp_path / "one"), Versions(tmp_path / "two")
    one.save(1, arrays(1), SCALARS)
    for _ in range(8):
        two.save(1, arrays(1), dict(reversed(SCALARS.items())))
        assert one.path(1).read_bytes() == two.path(1).read_bytes()


@pytest.mark.parametrize(
    ("checkpoints", "left"),
    [([0], [6]), ([0, 2], [1, 6]), ([2, 4], [1, 3, 6]), ([4, 5], [3, 5, 6]), ([5, 9], [5, 6])],
)
def test_prune_keeps_what_a_resume_may_need(
    tmp_path: Path, checkpoints: list[int], left: list[int]
) -> None:
    versions = with_rounds(tmp_path, 1, 3, 5, 6)
    before = [versions.load(c + 1) for c in checkpoints]
    versions.prune(checkpoints)
    assert versions.rounds() == left
    for one, checkpoint in zip(before, checkpoints, strict=True):
        after = versions.load(checkpoint + 1)
        assert (one is None) == (after is None)
        if one is not None and after is not None:
            assert fingerprint(one[0]) == fingerprint(after[0])


def test_rollback_drops_later_rounds_and_leftovers(tmp_path: Path) -> None:
    versions = with_rounds(tmp_path, 1, 2, 3)
    (versions.folder / ".round-000004.safetensors.9.partial").write_bytes(b"torn")
    versions.rollback(2)
    assert sorted(versions.folder.iterdir()) == [versions.path(1), versions.path(2)]
    versions.rollback(0)
    assert versions.load(9) is None


def test_a_rollback_that_leaves_nothing_keeps_the_newest_until_it_is_reached_again(
    tmp_path: Path,
) -> None:
    versions = Versions(tmp_path, "oak")
    for number in (2, 5):
        versions.save(number, {"w": np.full(2, number)}, {})
    kept = versions.path(5).read_bytes()
    versions.rollback(0)
    aside = tmp_path / "aside-round-000005.safetensors"
    assert versions.rounds() == [] and aside.read_bytes() == kept
    versions.save(1, {"w": np.zeros(2)}, {})
    versions.rollback(0)  # once more: the later state stays
    assert aside.read_bytes() == kept
    versions.save(4, {"w": np.zeros(2)}, {})
    assert [p.name for p in tmp_path.glob("aside*")] == [aside.name]
    versions.save(5, {"w": np.zeros(2)}, {})
    assert not list(tmp_path.glob("aside*"))


def _edit_scalar(data: bytes) -> bytes:
    edited = data.replace(b'\\"seen\\": 3', b'\\"seen\\": 4')
    assert edited != data
    return edited


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "an array": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "a scalar": _edit_scalar,
    "cut": lambda data: data[:-5],
    "cut in the header": lambda data: data[:20],
    "empty": lambda data: b"",
    "another file": lambda data: b"[]",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported_with_file_and_cure(tmp_path: Path, damage: str) -> None:
    path = with_rounds(tmp_path, 0, 1).path(1)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(InputError) as caught:
        Versions(path.parent).load(2)
    text = str(caught.value)
    assert (
        text.startswith(f"{path}: damaged private state, ")
        and "to resume from the one before" in text
    )
    assert "delete" not in text  # the version before it would not fit what the server knows


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    """Anywhere in the file, header included."""
    versions = with_rounds(tmp_path, 1)
    path, whole = versions.path(1), versions.path(1).read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(InputError, match=r"damaged private state|private state format"):
            versions.load(2)


def test_other_format_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedsuite.runs.versions, "FORMAT", 99)
    checkpoints = with_checkpoints(tmp_path, 1)
    monkeypatch.undo()
    with pytest.raises(InputError, match="checkpoint format 99, this version reads 2"):
        checkpoints.latest()


# --- the server's --------------------------------------------------------------------------------


def test_a_checkpoint_holds_the_whole_state(tmp_path: Path) -> None:
    loaded = with_checkpoints(tmp_path, 3).latest()
    assert loaded is not None
    assert list(loaded.state.arrays) == list(arrays(3))
    assert fingerprint(loaded.state.arrays) == fingerprint(arrays(3))
    assert loaded.state.scalars == SCALARS
    assert (loaded.round, loaded.config_digest) == (3, "digest")


def test_no_arrays_at_all(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_state(RunState(0, ServerState({}), "d"))
    loaded = checkpoints.latest()
    assert loaded is not None and loaded.state.arrays == {}


def test_keeps_first_and_last_two(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() is None
    assert checkpoints.needed() == [0]
    for number in (0, 2, 4, 6, 8):
        checkpoints.save_state(state(number))
    assert checkpoints.rounds() == [0, 6, 8]
    assert checkpoints.needed() == [6, 8]


def test_an_interrupted_write_is_never_taken_for_a_checkpoint(tmp_path: Path) -> None:
    checkpoints = with_checkpoints(tmp_path, 1)
    (tmp_path / ".round-000002.safetensors.77.partial").write_bytes(b"torn")
    loaded = checkpoints.latest()
    assert loaded is not None and loaded.round == 1


def test_a_damaged_checkpoint_can_be_deleted(tmp_path: Path) -> None:
    checkpoints = with_checkpoints(tmp_path, 0, 1)
    checkpoints.path(1).write_bytes(b"torn")
    with pytest.raises(InputError) as caught:
        checkpoints.latest()
    text = str(caught.value)
    assert f"{checkpoints.path(1)}: damaged checkpoint" in text
    assert "put it back from a copy, or move it away to resume from round 0" in text
    assert "--overwrite" not in text
    checkpoints.path(1).unlink()
    loaded = checkpoints.latest()
    assert loaded is not None and loaded.round == 0
    checkpoints.path(0).write_bytes(b"torn")
    with pytest.raises(InputError, match="put it back from a copy; without one, "):
        checkpoints.latest()
