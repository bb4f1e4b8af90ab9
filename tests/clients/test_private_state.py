from pathlib import Path

import numpy as np
import pytest

from clients.private_state import PrivateState
from fedsuite.arrays import fingerprint
from fedsuite.errors import InputError


def arrays(value: int) -> dict[str, np.ndarray]:
    return {"z": np.full((2, 2), value, np.float32).T, "a": np.array(value), "e": np.zeros((0,))}


def with_rounds(folder: Path, *rounds: int) -> PrivateState:
    private = PrivateState(folder / "site")
    for number in rounds:
        private.save(number, arrays(number), {"round": number, "stream": "x", "flag": True})
    return private


def test_nothing_before_anything_was_saved(tmp_path: Path) -> None:
    private = PrivateState(tmp_path / "site")
    assert private.load(5) is None
    private.prune([3])
    private.rollback(0)
    assert not (tmp_path / "site").exists()


def test_load_gives_the_newest_version_before_a_round(tmp_path: Path) -> None:
    private = with_rounds(tmp_path, 2, 4, 5)
    for before, expected in ((3, 2), (4, 2), (5, 4), (6, 5), (99, 5)):
        found = private.load(before)
        assert found is not None
        assert fingerprint(found[0]) == fingerprint(arrays(expected))
        assert list(found[0]) == ["z", "a", "e"]
        assert found[1] == {"round": expected, "stream": "x", "flag": True}
    assert private.load(2) is None


def test_saving_a_round_twice_keeps_the_second(tmp_path: Path) -> None:
    private = with_rounds(tmp_path, 1)
    private.save(1, arrays(7), {})
    found = private.load(2)
    assert found is not None and found[0]["a"] == 7


@pytest.mark.parametrize(
    ("checkpoints", "left"),
    [([0], [6]), ([0, 2], [1, 6]), ([2, 4], [1, 3, 6]), ([4, 5], [3, 5, 6]), ([5, 9], [5, 6])],
)
def test_prune_keeps_what_a_resume_may_need(
    tmp_path: Path, checkpoints: list[int], left: list[int]
) -> None:
    private = with_rounds(tmp_path, 1, 3, 5, 6)
    before = [private.load(c + 1) for c in checkpoints]
    private.prune(checkpoints)
    assert private.rounds() == left
    for one, checkpoint in zip(before, checkpoints, strict=True):
        after = private.load(checkpoint + 1)
        assert (one is None) == (after is None)
        if one is not None and after is not None:
            assert fingerprint(one[0]) == fingerprint(after[0])


def test_rollback_drops_later_rounds_and_leftovers(tmp_path: Path) -> None:
    private = with_rounds(tmp_path, 1, 2, 3)
    (private.folder / ".round-000004.9.partial").write_bytes(b"torn")
    private.rollback(2)
    assert [p.name for p in sorted(private.folder.iterdir())] == [
        "round-000001.safetensors",
        "round-000002.safetensors",
    ]
    private.rollback(0)
    assert private.load(9) is None


def test_damage_is_named(tmp_path: Path) -> None:
    private = with_rounds(tmp_path, 1)
    path = private.folder / "round-000001.safetensors"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-1] ^= 1
    for damaged in (bytes(flipped), whole[:-3], b""):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"round-000001\.safetensors: damaged private state"):
            private.load(2)
