"""Videos: frames by their times, and hostile or damaged files, which are one line and never a wrong frame."""

import os
import random
import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from fedsuite.driving.data.readers import FrameFormat
from fedsuite.driving.data.readers.decoding import Job, frames_of
from fedsuite.driving.data.readers.video import Clip, Videos
from fedsuite.errors import InputError
from tests.lerobot_folders import code_of, coded, png, write_video

CODES = [*range(1, 31)]


def job_of(file: Path, form: str, count: int = 30, size: int = 30) -> Job:
    return Job(str(file), form, [[i / 10 for i in range(count)]], 0.05, [*range(min(count, size))])


def codes(job: Job) -> dict[int, int]:
    return {row: code_of(np.asarray(picture)) for row, picture in frames_of(job)}


def refusal(file: Path, form: str = "mp4", count: int = 30) -> str:
    """What the process that decodes says of a file."""
    videos = Videos(form, (Clip(file, (np.arange(count) / 10,)),), 0.05)
    with pytest.raises(InputError) as caught:
        list(videos.stream(range(count), FrameFormat(40)))
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"{file}: ") and "; " in message
    return message


@pytest.fixture(scope="session", params=["mp4", "mp4 with long groups", "hevc"])
def video(tmp_path_factory, request) -> tuple[Path, str]:
    form = request.param.split()[0]
    options = {"g": "250", "bf": "3"} if "long" in request.param else {}
    file = tmp_path_factory.mktemp("video") / f"video.{form}"
    write_video(file, CODES, form, **options)
    return file, form


def test_frames_are_those_of_their_rows(video) -> None:
    file, form = video
    assert codes(job_of(file, form)) == dict(enumerate(CODES))
    some = Job(str(file), form, [[i / 10 for i in range(30)]], 0.05, [4, 11, 29])
    assert codes(some) == {4: 5, 11: 12, 29: 30}
    if form == "mp4":
        gap = Job(str(file), form, [[0.0, 0.1], [1.5, 1.6]], 0.05, [1, 2])
        assert codes(gap) == {1: 2, 2: 16}


@pytest.mark.parametrize("runs", [[[0.0, 0.2]], [[0.0, 0.1], [0.1, 0.2]], [[0.5], [0.1]], [[-0.2]]])
def test_rows_that_no_chain_of_frames_belongs_to(tmp_path, runs) -> None:
    write_video(tmp_path / "a.mp4", CODES)
    with pytest.raises(InputError, match="do not belong together"):
        codes(Job(str(tmp_path / "a.mp4"), "mp4", runs, 0.05, [0]))


@pytest.mark.slow
@pytest.mark.parametrize("count", [29, 31])
def test_a_bare_stream_of_another_length_is_refused(tmp_path, count) -> None:
    write_video(tmp_path / "a.hevc", CODES, "hevc")
    assert f"expected {count}" in refusal(tmp_path / "a.hevc", "hevc", count)


@pytest.mark.slow
def test_a_bare_stream_that_lost_a_unit_is_refused(tmp_path) -> None:
    file = tmp_path / "a.hevc"
    write_video(file, CODES, "hevc", bf="0")
    units = file.read_bytes().split(b"\0\0\1")
    file.write_bytes(b"\0\0\1".join(units[:15] + units[16:]))
    assert refusal(file, "hevc")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a text", "a list of files", "a picture", "nothing", "half a video"]
)
def test_files_that_are_no_videos(tmp_path, name) -> None:
    file = tmp_path / "video.mp4"
    write_video(tmp_path / "other.mp4", CODES)
    whole = (tmp_path / "other.mp4").read_bytes()
    contents = {
        "a text": b"hello", "a list of files": b"ffconcat version 1.0\nfile other.mp4\n", "a picture": png(3),
        "nothing": b"", "half a video": whole[: len(whole) // 2],
    }  # fmt: skip
    file.write_bytes(contents[name])
    assert "cannot be decoded" in refusal(file)


@pytest.mark.slow
def test_pictures_too_large_are_refused_before_they_are_made(tmp_path) -> None:
    file = tmp_path / "huge.mp4"
    write_video(file, [1], size=4160, preset="ultrafast")
    assert "cannot be decoded" in refusal(file, count=1)


@pytest.mark.slow
def test_a_video_whose_pictures_change_their_size(tmp_path) -> None:
    one, two = tmp_path / "one.hevc", tmp_path / "two.hevc"
    write_video(one, CODES[:15], "hevc")
    write_video(two, CODES[15:], "hevc", size=128)
    one.write_bytes(one.read_bytes() + two.read_bytes())
    assert "damaged" in refusal(one, "hevc")


@pytest.mark.slow
def test_a_video_to_be_shown_turned(tmp_path) -> None:
    """As telephones write it: frames as they came, and a matrix in the track's header that turns them."""
    file = tmp_path / "a.mp4"
    write_video(file, CODES[:3])
    whole = bytearray(file.read_bytes())
    matrix = whole.index(b"tkhd") + 44
    upright = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    assert whole[matrix : matrix + 36] == upright
    whole[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    file.write_bytes(whole)
    assert "to be shown turned by -90 degrees; save it upright" in refusal(file, count=3)


@pytest.mark.slow
def test_two_cameras_in_one_file(tmp_path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as out:
        streams = [out.add_stream("libx264", rate=10) for _ in range(2)]
        for stream in streams:
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for stream in streams:
            for number in range(3):
                frame = av.VideoFrame.from_ndarray(coded(number), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, 10)
                out.mux(stream.encode(frame))
            out.mux(stream.encode())
    assert "2 video streams" in refusal(tmp_path / "a.mp4", count=3)


@pytest.mark.slow
def test_damage_is_a_refusal_or_does_no_harm(video, tmp_path) -> None:
    """Bytes changed anywhere: pictures that come out are in their places, never a row too early or too late.

    Neither format has a checksum of its pictures, so that one may be spoilt without a word and look like the one that it was
    predicted from: often in a bare stream, in mp4 in six of 12,000 files damaged so and in none of these.
    """
    file, form = video
    whole, rng = file.read_bytes(), random.Random(7)
    came = 0
    for number in range(100):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 4, 64])):
            damaged[rng.randrange(len(whole))] = rng.randrange(256)
        other = tmp_path / f"{number}.{form}"
        other.write_bytes(damaged if number % 3 else damaged[: rng.randrange(len(whole))])
        try:
            found = codes(job_of(other, form))
        except InputError as error:
            assert "\n" not in str(error) and str(error).startswith(f"{other}: ")
            continue
        came += 1
        off = [found[row] - CODES[row] for row in sorted(found)]
        assert form == "hevc" or not any(off), (number, off)
        for three in zip(off, off[1:], off[2:], strict=False):
            assert set(three) not in ({-1}, {1}), (number, off)
    assert came < 80


@pytest.mark.slow
def test_a_decoder_that_takes_too_long_is_ended(tmp_path, monkeypatch) -> None:
    write_video(tmp_path / "a.mp4", CODES)
    monkeypatch.setattr("fedsuite.driving.data.readers.video.START_S", 0.0)
    monkeypatch.setattr("fedsuite.driving.data.readers.video.FRAME_S", 0.0)
    assert "took more than" in refusal(tmp_path / "a.mp4")
    assert len(os.listdir(tmp_path)) == 1
