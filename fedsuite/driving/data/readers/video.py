"""Frames that lie in video files, decoded in a process of its own, which may take so much time and memory and no more.

Every file is gone through once, in order, and frames come back at the size that a network gets, one at a time: neither a
whole picture nor a second frame is ever held here. PyAV decodes them (`pip install 'fedsuite[video]'`); decoding.py says
how a row finds its frame.
"""

import os
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np

from fedsuite.driving.data.readers import decoding
from fedsuite.driving.data.readers.decoding import Job, received, send
from fedsuite.driving.data.readers.drive import FrameFormat
from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable

START_S, FRAME_S = 30.0, 0.25  # a file's time: to start, and for each of its rows


@dataclass(frozen=True)
class Clip:
    """The rows of one file. runs: for every run float64 [n], where its frames are, in seconds of the file; of a bare stream
    only their number counts."""

    file: Path
    runs: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return sum(map(len, self.runs))


@dataclass(frozen=True)
class Videos:
    """Footage: the rows of all clips, one after another. form: mp4 or hevc; slack_s: half a frame."""

    form: str
    clips: tuple[Clip, ...]
    slack_s: float = 0.0

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(clip.file for clip in self.clips)

    @property
    def about(self) -> str:
        starts = [[float(run[0]) for run in clip.runs] for clip in self.clips]
        return f"video {self.form} {decoder_version()} {self.slack_s} {starts}"

    def stream(self, places: Sequence[int], form: FrameFormat) -> Iterator[tuple[int, np.ndarray]]:
        first, shape = 0, (form.channels, form.size_px, form.size_px)
        with _decoder() as process:
            for clip in self.clips:
                start, stop = (bisect_left(places, p) for p in (first, first + len(clip)))
                wanted = [place - first for place in places[start:stop]]
                runs = [run.tolist() for run in clip.runs]
                size, slack = form.size_px, self.slack_s
                job = Job(str(clip.file), self.form, runs, slack, wanted, size, form.channels)
                for row, data in _frames(process, job) if wanted else ():
                    yield first + row, np.frombuffer(data, np.uint8).reshape(shape)
                first += len(clip)


def check_videos(files: Sequence[Path]) -> None:
    """InputError where PyAV is not installed, or one of the files is not there."""
    for file in files:
        check_readable(file)
        if not file.exists():
            raise InputError(f"{file}: the video is missing; fetch it, or the recording again")
    if files and find_spec("av") is None:
        raise InputError(f"{files[0]}: videos need PyAV; pip install 'fedsuite[video]'")


def decoder_version() -> str:
    """PyAV's major version, as another decoder may give other pixels."""
    from importlib.metadata import version

    return "av " + version("av").partition(".")[0]


@contextmanager
def _decoder() -> Iterator["subprocess.Popen[bytes]"]:
    """The process that decodes; ended when the `with` is left."""
    root = str(Path(__file__).resolve().parents[4])
    paths = os.pathsep.join(dict.fromkeys([root, *filter(None, sys.path)]))
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", decoding.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths} | threads,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _frames(process: "subprocess.Popen[bytes]", job: Job) -> Iterator[tuple[int, bytes]]:
    """(row, pixels) of the rows that a job wants; InputError where they cannot be had."""
    assert process.stdin and process.stdout  # pipes, see above
    limit_s = START_S + FRAME_S * job.rows
    timer = Timer(limit_s, process.kill)
    timer.start()
    try:
        content: dict[str, Any] | None = None
        try:
            send(process.stdin, asdict(job))
            process.stdin.flush()
            content = received(process.stdout)
        except BrokenPipeError:  # it is dead already
            pass
        while content is not None and "row" in content:
            data = process.stdout.read(job.channels * job.size_px**2)
            if len(data) == job.channels * job.size_px**2:
                yield content["row"], data
            content = received(process.stdout)
    finally:
        timer.cancel()
    if content is None:
        raise InputError(
            f"{job.file}: cannot be decoded (it took more than {limit_s:.0f} s or {decoding.MOST_MEMORY >> 30} GB, or the "
            f"decoder crashed); {decoding.AGAIN}"
        )
    if content["end"]:
        raise InputError(content["end"])
