"""Preprocessing against a plain twin, and images that are no usable frames."""

import math
import time

import numpy as np
import pytest
from PIL import Image

from fedsuite.driving.data.readers import FrameFormat, read_drive, read_picture
from fedsuite.errors import InputError


def weights(source: int, target: int) -> np.ndarray:
    """[target, source]: linear interpolation at pixel centres, its triangle as wide as a target pixel when shrinking."""
    scale = source / target
    reach = max(scale, 1.0)
    table = np.zeros((target, source))
    for out in range(target):
        centre = (out + 0.5) * scale
        for i in range(source):
            table[out, i] = max(0.0, 1 - abs(i + 0.5 - centre) / reach)
    return table / table.sum(1, keepdims=True)


def area_mean(square: np.ndarray, size: int) -> np.ndarray:
    """Mean over whole blocks of pixels; the size must divide 200."""
    step = len(square) // size
    return np.array(
        [
            [square[r : r + step, c : c + step].mean() for c in range(0, len(square), step)]
            for r in range(0, len(square), step)
        ]
    )


def plain_frame(rgb: np.ndarray, size: int, channels: int) -> np.ndarray:
    """float [C, size, size] of an RGB picture [H, W, 3], step by step, without rounding in between."""
    planes = [rgb[..., c].astype(float) for c in range(3)]
    if channels == 1:
        planes = [0.299 * planes[0] + 0.587 * planes[1] + 0.114 * planes[2]]
    frames = []
    for plane in planes:
        height, width = plane.shape
        wide = weights(height, 240) @ plane @ weights(width, 320).T
        frames.append(area_mean(wide[240 - 200 :, 60:260], size))
    return np.stack(frames)


@pytest.mark.slow
@pytest.mark.parametrize("source", [(320, 160), (640, 480), (240, 320), (160, 120), (320, 240)])
@pytest.mark.parametrize(("size", "channels"), [(200, 1), (100, 1), (50, 3)])
def test_equals_the_plain_twin(tmp_path, source, size, channels) -> None:
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize(source, Image.Resampling.BICUBIC)
    picture.save(tmp_path / "a.png")
    frame = read_picture(tmp_path / "a.png", FrameFormat(size, channels))
    assert frame.shape == (channels, size, size)
    assert frame.dtype == np.uint8
    twin = plain_frame(np.asarray(picture), size, channels)
    # Four roundings on the way: grey, two passes of the resize, area mean.
    assert np.abs(frame - twin).max() <= 2.0
    assert np.abs(frame - twin).mean() < 0.5


def test_crop_is_the_bottom_centre(tmp_path) -> None:
    values = np.zeros((240, 320), np.uint8)
    values[40:, 60:260] = 200
    Image.fromarray(values).save(tmp_path / "a.png")
    assert (read_picture(tmp_path / "a.png", FrameFormat()) == 200).all()


def test_rgb_order_and_grey_sources(tmp_path) -> None:
    Image.new("RGB", (320, 160), (200, 100, 20)).save(tmp_path / "rgb.png")
    frame = read_picture(tmp_path / "rgb.png", FrameFormat(40, 3))
    assert [int(c.min()) for c in frame] == [int(c.max()) for c in frame] == [200, 100, 20]
    Image.new("L", (320, 160), 77).save(tmp_path / "grey.png")
    assert (read_picture(tmp_path / "grey.png", FrameFormat(40, 3)) == 77).all()
    Image.new("RGBA", (320, 160), (9, 9, 9, 0)).save(tmp_path / "rgba.png")
    assert (read_picture(tmp_path / "rgba.png", FrameFormat(40)) == 9).all()


def test_turned_camera(tmp_path) -> None:
    """A picture stored on its side, with the tag that says so, is read upright."""
    values = np.zeros((240, 320), np.uint8)
    values[:, 160:] = 250
    exif = Image.Exif()
    exif[0x0112] = 6  # stored a quarter turn against the clock
    stored = Image.fromarray(np.rot90(values))
    stored.save(tmp_path / "a.png", exif=exif)
    Image.fromarray(values).save(tmp_path / "b.png")
    a, b = (read_picture(tmp_path / f"{n}.png", FrameFormat()) for n in "ab")
    assert math.isclose(float(b.mean()), 125, abs_tol=2)
    assert np.array_equal(a, b)


def test_images_that_do_not_decode(tmp_path) -> None:
    good = tmp_path / "good.jpg"
    Image.effect_noise((320, 160), 40).save(good)
    for name, data in (
        ("text.jpg", b"no image"),
        ("empty.jpg", b""),
        ("cut.jpg", good.read_bytes()[:3000]),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=rf"{name}: cannot be decoded \(.*\); fetch") as caught:
            read_picture(tmp_path / name, FrameFormat())
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="image is missing"):
        read_picture(tmp_path / "none.jpg", FrameFormat())
    Image.fromarray(np.zeros((20, 20), np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(InputError, match=r"mode I(;16)?, expected 8 bits"):
        read_picture(tmp_path / "deep.png", FrameFormat())


@pytest.mark.parametrize("size", [8, 64, 150, 300])
def test_any_size_keeps_the_mean(tmp_path, size) -> None:
    Image.linear_gradient("L").save(tmp_path / "a.png")
    whole = read_picture(tmp_path / "a.png", FrameFormat())
    frame = read_picture(tmp_path / "a.png", FrameFormat(size))
    assert frame.shape == (1, size, size)
    assert abs(float(frame.mean()) - float(whole.mean())) < 1


@pytest.mark.slow
@pytest.mark.needs_shared
@pytest.mark.parametrize("channels", [1, 3])
def test_real_frames(shared, channels) -> None:
    folders = sorted((shared / "data" / "driving").glob("udacity_sim_*"))
    if not folders:
        pytest.skip("no driving data beside the repository")
    paths = [p for folder in folders for p in read_drive(folder).image_paths[::200]]
    started = time.perf_counter()
    frames = np.stack([read_picture(path, FrameFormat(100, channels)) for path in paths])
    print(
        f"{1e3 * (time.perf_counter() - started) / len(paths):.2f} ms a frame, {channels} channels"
    )
    assert frames.shape == (len(paths), channels, 100, 100)
    for path, frame in list(zip(paths, frames, strict=True))[::6]:
        with Image.open(path) as image:
            twin = plain_frame(np.asarray(image.convert("RGB")), 100, channels)
        assert np.abs(frame - twin).max() <= 2.0
