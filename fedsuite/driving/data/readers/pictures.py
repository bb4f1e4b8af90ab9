"""From an image file to a frame, as DroNet and the CDL release do it (Loquercio et al. 2018, Do et al. 2024).

    decode -> grey (ITU-R 601) or RGB -> 320 x 240 (width x height) -> 200 x 200, centred, from the bottom -> size x size

Every picture goes through all steps, whatever its size or orientation; RGB is channel first. The resize to 320 x 240 is
bilinear (averaging where it shrinks), the one to `size_px` takes area means. Nothing is scaled: uint8 0..255 stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from fedsuite.driving.data.readers.archive import stream_imgs
from fedsuite.driving.data.readers.drive import Drive
from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable

WIDTH_PX, HEIGHT_PX, CROP_PX = 320, 240, 200
LEFT_PX = (WIDTH_PX - CROP_PX) // 2
BOX = (LEFT_PX, HEIGHT_PX - CROP_PX, LEFT_PX + CROP_PX, HEIGHT_PX)
EIGHT_BIT = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")


@dataclass(frozen=True)
class FrameFormat:
    """size_px: height and width of a frame; channels: 1 grey, 3 RGB."""

    size_px: int = CROP_PX
    channels: int = 1


def read_picture(path: Path, form: FrameFormat) -> np.ndarray:
    """uint8 [C, H, W] of one image file; InputError if it does not decode."""
    return _cropped(_decoded(path, form), form)


def read_frame(path: Path, form: FrameFormat) -> np.ndarray:
    """The same for a network that was trained on generated roads, whose frames are square and whole: a square picture is
    not cropped, only brought to `size_px`; any other is treated as a recorded drive's."""
    picture, size = _decoded(path, form), form.size_px
    if picture.width != picture.height:
        return _cropped(picture, form)
    if picture.width != size:
        smaller = picture.width > size
        filter_ = Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR
        picture = picture.resize((size, size), filter_)
    return _channel_first(picture)


def _decoded(path: Path, form: FrameFormat) -> Image.Image:
    """Upright, grey or RGB."""
    check_readable(path)
    try:
        with Image.open(path) as image:
            if image.mode not in EIGHT_BIT:
                raise InputError(
                    f"{path}: pixels of mode {image.mode}, expected 8 bits a channel; save the image as 8-bit"
                )
            upright = ImageOps.exif_transpose(image)
            return upright.convert("L" if form.channels == 1 else "RGB")
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: image is missing; add it or remove its row") from None
    except Exception as error:  # decoders raise whatever they like
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: cannot be decoded ({reason}); fetch the image again or remove its row"
        ) from None


def _cropped(picture: Image.Image, form: FrameFormat) -> np.ndarray:
    wide = picture.resize((WIDTH_PX, HEIGHT_PX), Image.Resampling.BILINEAR)
    return _sized(wide.crop(BOX), form.size_px)


def pictures(
    drive: Drive, wanted: np.ndarray, form: FrameFormat
) -> Iterator[tuple[int, np.ndarray]]:
    """(row, uint8 [C, H, W]) of every row where `wanted` [n] holds, in order; one frame in memory at a time."""
    if drive.archive is None:
        for row in np.flatnonzero(wanted).tolist():
            yield row, read_picture(drive.image_paths[row], form)
        return
    places = np.arange(len(drive)) if drive.rows is None else drive.rows
    row_of = {int(places[row]): row for row in np.flatnonzero(wanted).tolist()}
    for place, grey in enumerate(stream_imgs(drive.archive)):
        if place in row_of:
            frame = _sized(Image.fromarray(grey), form.size_px)
            yield row_of[place], np.repeat(frame, form.channels, axis=0)


def _sized(picture: Image.Image, size_px: int) -> np.ndarray:
    """uint8 [C, H, W] of a square picture."""
    if CROP_PX % size_px == 0:
        picture = picture.reduce(CROP_PX // size_px)  # whole blocks of pixels, rounded once
    else:
        # The area mean of an enlargement would be blocks of equal pixels.
        filter_ = Image.Resampling.BOX if size_px < CROP_PX else Image.Resampling.BILINEAR
        picture = picture.resize((size_px, size_px), filter_)
    return _channel_first(picture)


def _channel_first(picture: Image.Image) -> np.ndarray:
    values = np.asarray(picture)
    return values[None] if values.ndim == 2 else np.ascontiguousarray(values.transpose(2, 0, 1))
