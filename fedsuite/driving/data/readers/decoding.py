"""Frames of one video file, decoded with PyAV: the module that a process of its own runs (video.py starts it).

Decoders are C code and videos come from anywhere, so that memory is bounded, pictures are at most 4096 x 4096, FFmpeg opens
the one file as the one format that was said, and a frame counts only if it comes at the very time that the file's index has
for it: a stream from which something was lost often decodes to fewer frames without a word.

    mp4    the frame of a row is the one nearest to its time, half a frame away at most; rows of a run have neighbouring
           frames, and runs share none
    hevc   a bare stream has no times: row i is the i-th frame that comes out, and their number must be that of the rows
"""

import json
import resource
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

from fedsuite.driving.data.readers.drive import FrameFormat
from fedsuite.driving.data.readers.pictures import cropped
from fedsuite.errors import InputError, one_line

MP4, HEVC = "mp4", "hevc"
MOST_PIXELS, MOST_MEMORY = 1 << 24, 2 << 30
LENGTH = struct.Struct("<I")
AGAIN = "fetch the file again or remove the recording"


@dataclass(frozen=True)
class Job:
    """One file. runs: times of all rows in seconds, by run (hevc: zeros, whose number counts); slack_s: how far a frame may
    be from a row's time; wanted: numbers of the rows to be decoded, ascending."""

    file: str
    form: str
    runs: list[list[float]]
    slack_s: float = 0.0
    wanted: list[int] = field(default_factory=list)
    size_px: int = 0
    channels: int = 1

    @property
    def rows(self) -> int:
        """Rows of all runs."""
        return sum(map(len, self.runs))


def frames_of(job: Job) -> Iterator[tuple[int, Image.Image]]:
    """(row, whole picture, grey or RGB) of every row that is wanted; InputError says what is wrong with the file."""
    try:
        yield from _frames(job)
    except InputError:
        raise
    except Exception as error:  # FFmpeg's errors, and whatever damaged text in a file makes of them
        reason = one_line(f"PyAV {version('av')}, {type(error).__name__}: {error}", 200)
        raise InputError(f"{job.file}: cannot be decoded ({reason}); {AGAIN}") from None


def _frames(job: Job) -> Iterator[tuple[int, Image.Image]]:
    index = _index(job) if job.form == MP4 else []
    numbers = _numbers(job, index) if index else list(range(job.rows))
    row_of = {numbers[row]: row for row in job.wanted}
    # A bare stream is decoded to its end, because only its length tells whether a frame was lost.
    last = max(row_of, default=-1) if index else job.rows
    size, count = None, 0
    with _opened(job) as (container, stream):
        for number, frame in enumerate(container.decode(stream) if last >= 0 else ()):
            if index and (number >= len(index) or frame.pts != index[number]):
                raise InputError(f"{job.file}: frame {number} is damaged or missing; {AGAIN}")
            if frame.is_corrupt or (size := size or (frame.width, frame.height)) != (
                frame.width,
                frame.height,
            ):
                raise InputError(f"{job.file}: frame {number} is damaged; {AGAIN}")
            if frame.rotation:
                raise InputError(
                    f"{job.file}: to be shown turned by {frame.rotation} degrees; save it upright"
                )
            if number in row_of:
                rgb = Image.fromarray(frame.to_ndarray(format="rgb24"))
                yield row_of[number], rgb.convert("L") if job.channels == 1 else rgb
            count = number + 1
            if count > last:
                break
    if count <= last if index else count != last:
        more = "or more " if count > last else ""
        raise InputError(
            f"{job.file}: {count} {more}frames can be decoded, expected {last + 1 if index else last}; {AGAIN}"
        )


@contextmanager
def _opened(job: Job) -> Iterator[tuple[Any, Any]]:
    """The container and its only video stream."""
    import av

    limits: Any = {"max_pixels": str(MOST_PIXELS), "err_detect": "explode"}
    with Path(job.file).open("rb") as raw, ExitStack() as stack:
        container: Any = stack.enter_context(av.open(raw, format=job.form, options=limits))
        videos = container.streams.video
        if len(videos) != 1:
            raise InputError(
                f"{job.file}: cannot be decoded ({len(videos)} video streams, expected 1); {AGAIN}"
            )
        context = videos[0].codec_context
        context.options = limits
        context.thread_type, context.thread_count = "NONE", 1
        yield container, videos[0]


def _index(job: Job) -> list[int]:
    """When the frames of a file are to be shown, in the stream's own unit, ascending; nothing is decoded."""
    with _opened(job) as (container, stream):
        packets = (p for p in container.demux(stream) if p.size and not p.is_discard)
        found = [packet.pts for packet in packets]
        if not found or None in found or len(set(found)) != len(found):
            raise InputError(f"{job.file}: no frames that have times of their own; {AGAIN}")
        return sorted(found)


def _numbers(job: Job, index: list[int]) -> list[int]:
    """Which frame of the file belongs to each row."""
    with _opened(job) as (_, stream):
        shown = np.array(index) * float(stream.time_base)
    numbers: list[int] = []
    for run in map(np.array, job.runs):
        right = np.clip(np.searchsorted(shown, run), 1, max(len(shown) - 1, 1))
        right = np.minimum(right, len(shown) - 1)
        left = np.maximum(right - 1, 0)
        near = np.where(np.abs(shown[left] - run) <= np.abs(shown[right] - run), left, right)
        off = np.abs(shown[near] - run)
        worst = int(off.argmax())
        if off[worst] > job.slack_s:
            raise InputError(
                f"{job.file}: a row is at {run[worst]:.4f} s, the nearest of {len(shown)} frames at "
                f"{shown[near[worst]]:.4f} s; rows and video do not belong together or it was cut off, {AGAIN}"
            )
        before = numbers[-1] if numbers else -1
        if near[0] <= before or (np.diff(near) != 1).any():
            raise InputError(
                f"{job.file}: the rows from {run[0]:.4f} s to {run[-1]:.4f} s take frames {near[0]} to {near[-1]}, of which "
                "some are left out or belong to other rows; rows and video do not belong together, fetch both again"
            )
        numbers += near.tolist()
    return numbers


def answer(job: Job, out: IO[bytes]) -> None:
    """Writes every frame behind its row's number, and in the end nothing or what is wrong."""
    form = FrameFormat(job.size_px, job.channels)
    problem = ""
    try:
        for row, picture in frames_of(job):
            send(out, {"row": row})
            out.write(cropped(picture, form).tobytes())
    except InputError as error:
        problem = str(error)
    send(out, {"end": problem})
    out.flush()


def send(out: IO[bytes], content: dict[str, Any]) -> None:
    """A JSON object behind its length."""
    text = json.dumps(content).encode()
    out.write(LENGTH.pack(len(text)) + text)


def received(source: IO[bytes]) -> dict[str, Any] | None:
    """The next object; None at the end."""
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    text = source.read(LENGTH.unpack(head)[0])
    return dict(json.loads(text)) if text else None


def main() -> None:
    """Answers jobs from the standard input until it is closed."""
    with suppress(OSError, ValueError):  # where the system has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    for content in iter(lambda: received(sys.stdin.buffer), None):
        answer(Job(**content), sys.stdout.buffer)


if __name__ == "__main__":
    main()
