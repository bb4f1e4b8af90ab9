"""comma2k19 (Schafer et al. 2018, 1812.05752): Chunk_<n>/<dongle>|<start>/<segment>/, a minute of driving each; a route, the
folder of its segments, is one drive.

    video.hevc                                   20 frames a second, a bare H.265 stream
    global_pose/frame_times                      seconds since boot, one a frame
    processed_log/CAN/steering_angle/{t,value}   seconds of the same clock, about 83 a second; degrees

Arrays are .npy without the suffix. Angle: degrees at the steering WHEEL, LEFT POSITIVE; made radians here, and brought to
the times of the frames (clocks.py). Segments are runs of their own. A stream of another number of frames than frame_times
is refused: which of them was lost nobody knows.
"""

from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers.angles import DEGREE, WHEEL, law_of
from fedsuite.driving.data.readers.archive import read_header
from fedsuite.driving.data.readers.clocks import at_times, check_clock
from fedsuite.driving.data.readers.decoding import HEVC
from fedsuite.driving.data.readers.drive import LEFT, Drive, ReadOptions, name_of, visible
from fedsuite.driving.data.readers.rows import BadRows, kept_frames
from fedsuite.driving.data.readers.video import Clip, Videos, check_videos
from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import check_readable

KIND = "comma2k19"
VIDEO = "video.hevc"
FRAMES, CAN = Path("global_pose", "frame_times"), Path("processed_log", "CAN", "steering_angle")
MOST = 10**7  # numbers of one array: a minute has some thousands


def matches(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob(f"*/{VIDEO}"))


def read(folder: Path, options: ReadOptions) -> Drive:
    """All segments of a route, in order of their numbers."""
    segments = [path for path in visible(folder) if (path / VIDEO).exists()]
    if not segments:
        raise InputError(f"{folder}: no segment with {VIDEO}; give the folder of a route")
    check_videos([segment / VIDEO for segment in segments])
    places: list[str] = []
    values, clips = [], []
    for segment in segments:
        times = _numbers(segment / FRAMES)
        check_clock(segment / FRAMES, times)
        samples, degrees = (_numbers(segment / CAN / part) for part in ("t", "value"))
        check_clock(segment / CAN / "t", samples)
        if len(samples) != len(degrees):
            raise InputError(
                f"{segment / CAN}: {len(samples)} times but {len(degrees)} values; fetch the segment again"
            )
        values.append(at_times(times, samples, degrees) * (1 if options.unit else DEGREE))
        clips.append(Clip(segment / VIDEO, (times,)))
        places += [f"segment {segment.name} frame {i}" for i in range(len(times))]
    law, bad = law_of(WHEEL, LEFT, options), BadRows(options.drop)
    angles, kept = kept_frames(folder, places, np.concatenate(values).tolist(), law, bad)
    runs = np.repeat(np.arange(len(clips)), [len(clip) for clip in clips])[kept]
    return Drive(
        name_of(folder), KIND, angles, law.unit, law.sign, footage=Videos(HEVC, tuple(clips)), rows=kept, runs=runs,
        limit=law.limit, left_out=len(bad.told), notes=bad.notes(folder),
    )  # fmt: skip


def _numbers(file: Path) -> np.ndarray:
    """float64 [n] of an .npy file of [n] or [n, 1] numbers, whose header is looked at first."""
    check_readable(file)
    try:
        with file.open("rb") as source:
            shape, dtype = read_header(source)
            size = int(np.prod(shape, dtype=object))
            if dtype.kind != "f" or shape not in ((size,), (size, 1)) or not 0 < size <= MOST:
                raise InputError(
                    f"{file}: {dtype} {shape}, expected decimal numbers [n]; fetch the segment again"
                )
            data = source.read(size * dtype.itemsize)
            return np.frombuffer(data, dtype, size).astype(np.float64)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; fetch the segment again") from None
    except InputError:
        raise
    except Exception as error:  # damaged headers raise whatever they like
        raise InputError(
            f"{file}: cannot be read as .npy ({one_line(str(error), 100)}); fetch the segment again"
        ) from None
