"""From an image file to a frame, as DroNet and the CDL release do it (Loquercio et al. 2018, Do et al. 2024).

    decode -> grey (ITU-R 601) or RGB -> 320 x 240 (width x height) -> 200 x 200, centred, from the bottom -> size x size

Every picture goes through all steps, whatever its size or orientation; RGB is channel first. The resize to 320 x 240 is
bilinear (averaging where it shrinks), the one to `size_px` takes area means. Nothing is scaled: uint8 0..255 stays.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from PIL import Image, ImageOps

from fedsuite.driving.data.readers.drive import CROP_PX, Drive, FrameFormat
from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable

WIDTH_PX, HEIGHT_PX = 320, 240
LEFT_PX = (WIDTH_PX - CROP_PX) // 2
BOX = (LEFT_PX, HEIGHT_PX - CROP_PX, LEFT_PX + CROP_PX, HEIGHT_PX)
EIGHT_BIT = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")


def read_picture(path: Path, form: FrameFormat) -> np.ndarray:
    """uint8 [C, H, W] of one image file; InputError if it does not decode."""
    check_readable(path)
    return cropped(_decoded(path, path, form), form)


def read_frame(path: Path, form: FrameFormat) -> np.ndarray:
    """The same for a network that was trained on generated roads, whose frames are square and whole: a square picture is
    not cropped, only brought to `size_px`; any other is treated as a recorded drive's."""
    check_readable(path)
    picture, size = _decoded(path, path, form), form.size_px
    if picture.width != picture.height:
        return cropped(picture, form)
    if picture.width != size:
        smaller = picture.width > size
        filter_ = Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR
        picture = picture.resize((size, size), filter_)
    return _channel_first(picture)


def frame_within(data: bytes, place: str, form: FrameFormat) -> np.ndarray:
    """uint8 [C, H, W] of a picture whose bytes lie in a larger file; place: how errors name it."""
    return cropped(_decoded(io.BytesIO(data), place, form), form)


def _decoded(source: Path | IO[bytes], path: object, form: FrameFormat) -> Image.Image:
    """Upright, grey or RGB; path: how errors name it."""
    try:
        with Image.open(source) as image:
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


def cropped(picture: Image.Image, form: FrameFormat) -> np.ndarray:
    """uint8 [C, H, W] of a whole picture that is grey or RGB already."""
    wide = picture.resize((WIDTH_PX, HEIGHT_PX), Image.Resampling.BILINEAR)
    return sized(wide.crop(BOX), form.size_px)


def pictures(
    drive: Drive, wanted: np.ndarray, form: FrameFormat
) -> Iterator[tuple[int, np.ndarray]]:
    """(row, uint8 [C, H, W]) of every row where `wanted` [n] holds, in order; one frame in memory at a time."""
    if drive.footage is None:
        for row in np.flatnonzero(wanted).tolist():
            yield row, read_picture(drive.image_paths[row], form)
        return
    places = np.arange(len(drive)) if drive.rows is None else drive.rows
    row_of = {int(places[row]): row for row in np.flatnonzero(wanted).tolist()}
    for place, frame in drive.footage.stream([*row_of], form):
        yield row_of[place], frame


def sized(picture: Image.Image, size_px: int) -> np.ndarray:
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
