import numpy as np
import pytest

from fedsuite.driving.data.batches import batch_rows, stacked_batch
from fedsuite.driving.data.frames import Silo
from fedsuite.driving.data.resident_frames import ResidentFrames


def test_an_epoch_holds_every_frame_once_and_the_next_is_in_another_order() -> None:
    stream = np.concatenate([batch_rows(3, 1, k, 4, 12) for k in range(6)])
    first, second = stream[:12], stream[12:]
    assert sorted(first) == sorted(second) == list(range(12))
    assert list(first) != list(second)


def test_small_silos_fill_their_batches() -> None:
    rows = batch_rows(0, 0, 0, 10, 4)
    assert np.array_equal(np.bincount(rows[:8]), [2, 2, 2, 2]) and len(rows) == 10


def test_silos_and_seeds_have_their_own_order() -> None:
    orders = {tuple(batch_rows(seed, silo, 0, 20, 20)) for seed in (0, 1) for silo in (0, 1)}
    assert len(orders) == 4


def test_a_silos_batches_do_not_depend_on_its_company(silos: tuple[Silo, ...]) -> None:
    frames = [s.train for s in silos]
    images, angles = stacked_batch(frames, (0, 1, 2), 5, 8, seed=7, flip=True)
    alone, own = stacked_batch(frames[2:], (2,), 5, 8, seed=7, flip=True)
    assert np.array_equal(images[2], alone[0]) and np.array_equal(angles[2], own[0])
    assert images.shape == (3, 8, 1, 40, 40) and angles.shape == (3, 8)


def test_flipping_mirrors_the_frame_and_negates_the_angle(silos: tuple[Silo, ...]) -> None:
    frames = [silos[0].train]
    plain, angles = stacked_batch(frames, (0,), 0, 10, seed=1, flip=False)
    flipped, turned = stacked_batch(frames, (0,), 0, 10, seed=1, flip=True)
    mirrored = turned[0] == -angles[0]
    assert 0 < mirrored.sum() < 10
    assert np.array_equal(flipped[0][mirrored], plain[0][mirrored][..., ::-1])
    assert np.array_equal(flipped[0][~mirrored], plain[0][~mirrored])


@pytest.mark.parametrize("flip", [True, False])
def test_batches_of_resident_frames_are_the_same(silos: tuple[Silo, ...], flip: bool) -> None:
    frames, numbers = [s.train for s in silos], (4, 0, 9)[: len(silos)]
    resident = ResidentFrames(frames[: len(numbers)], numbers, "cpu")
    for number in range(4):
        images, angles = stacked_batch(frames[: len(numbers)], numbers, number, 5, 7, flip)
        own_images, own_angles = resident.batch(number, 5, 7, flip)
        assert np.array_equal(own_images.numpy(), images)
        assert np.array_equal(own_angles.numpy(), angles)
        assert own_images.numpy().dtype == images.dtype and own_angles.numpy().dtype == angles.dtype
