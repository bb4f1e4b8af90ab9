"""LeRobot folders (v2.0, v2.1, v3.0): rows in parquet, pictures in mp4 or beside the rows; one folder is one drive.

Sign and unit: the format fixes neither, so that drives.toml must say `positive` and `angle-unit`. Which number is steering,
and which feature the camera, is found where only one can be meant, else said there (schema.py). Episodes are runs of their
own: blocks of test frames end where an episode ends. Where the folder has a heading, the sign is held against it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from fedsuite.driving.data.readers.angles import RADIANS, law_of
from fedsuite.driving.data.readers.decoding import MP4
from fedsuite.driving.data.readers.drive import Drive, FrameFormat, ReadOptions, name_of
from fedsuite.driving.data.readers.lerobot.episodes import (
    Episode,
    Rows,
    opened,
    read_episodes,
    read_rows,
)
from fedsuite.driving.data.readers.lerobot.heading import check_sign, heading_of
from fedsuite.driving.data.readers.lerobot.schema import (
    INFO,
    camera_of,
    read_schema,
    steering_of,
)
from fedsuite.driving.data.readers.pictures import frame_within
from fedsuite.driving.data.readers.rows import BadRows, kept_frames
from fedsuite.driving.data.readers.video import Clip, Videos, check_videos
from fedsuite.errors import InputError

KIND = "lerobot"


def matches(folder: Path) -> bool:
    return (folder / INFO).is_file()


def read(folder: Path, options: ReadOptions) -> Drive:
    """All episodes of one folder."""
    schema = read_schema(folder)
    camera, terms = camera_of(schema, options.camera), steering_of(schema, options)
    episodes = [e for e in read_episodes(schema, camera) if e.length]
    check_videos([*dict.fromkeys(e.video for e in episodes if e.video)])
    beside = heading_of(schema)
    rows = read_rows(schema, episodes, terms, beside)
    if camera.dtype == "image":
        episodes.sort(key=lambda e: (str(e.rows), rows[e.number].first))
    own = [rows[episode.number] for episode in episodes]
    footage = _videos(episodes, own, 0.5 / schema.fps) if camera.dtype == "video" else None
    places = [f"episode {e.number} frame {i}" for e in episodes for i in range(e.length)]
    law, bad = law_of(RADIANS, options.own_positive, options), BadRows(options.drop)
    values = np.concatenate([part.values for part in own]).tolist()
    angles, kept = kept_frames(schema.file, places, values, law, bad)
    runs = np.repeat(np.arange(len(episodes)), [e.length for e in episodes])[kept]
    steering = " - ".join(f"{term.key}[{term.name}]" for term in terms)
    note = f"{folder}: steering is {steering}, pictures are {camera.key}"
    doubt = ""
    if beside:
        heading, speed = np.concatenate([part.beside for part in own], axis=1)[:, kept]
        doubt = check_sign(schema.file, angles, heading, speed, runs, schema.fps)
    return Drive(
        name_of(folder), KIND, angles, law.unit, law.sign, runs=runs, rows=kept, limit=law.limit,
        footage=footage or _embedded(camera.key, episodes, own),
        left_out=len(bad.told), notes=(note, *[doubt][: len(doubt)], *bad.notes(schema.file)),
    )  # fmt: skip


def _videos(episodes: Sequence[Episode], rows: Sequence[Rows], slack_s: float) -> Videos:
    pairs = zip(episodes, rows, strict=True)
    clips = [
        Clip(file, tuple(episode.start_s + own.times for episode, own in group))
        for file, group in groupby(pairs, key=lambda pair: pair[0].video)
        if file is not None
    ]
    return Videos(MP4, tuple(clips), slack_s)


@dataclass(frozen=True)
class Embedded:
    """Footage: pictures that lie beside the rows. spans: (file, first row, rows) of every episode, in order."""

    key: str
    spans: tuple[tuple[Path, int, int], ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(file for file, _, _ in self.spans))

    @property
    def about(self) -> str:
        return f"pictures {self.key} {[(start, count) for _, start, count in self.spans]}"

    def stream(self, places: Sequence[int], form: FrameFormat) -> Iterator[tuple[int, np.ndarray]]:
        wanted, first = frozenset(places), 0
        place_of: dict[Path, dict[int, int]] = {}
        for file, start, count in self.spans:
            own = place_of.setdefault(file, {})
            own |= {start + i: first + i for i in range(count) if first + i in wanted}
            first += count
        for file, rows in place_of.items():
            for row, data in _pictures(file, self.key) if rows else ():
                if row in rows:
                    if not isinstance(data, bytes):
                        raise InputError(
                            f"{file}: row {row} holds no picture in {self.key}; fetch the file again"
                        )
                    yield rows[row], frame_within(data, f"{file}: row {row}", form)


def _embedded(key: str, episodes: Sequence[Episode], rows: Sequence[Rows]) -> Embedded:
    pairs = zip(episodes, rows, strict=True)
    return Embedded(key, tuple((e.rows, own.first, e.length) for e, own in pairs))


def _pictures(file: Path, key: str) -> Iterator[tuple[int, object]]:
    """(row, bytes of a picture, or what is in their place) of all rows."""
    row = 0
    with opened(file) as table:
        for batch in table.iter_batches(64, columns=[key]):
            for entry in batch.column(key):
                told = entry.as_py()
                yield row, told.get("bytes") if isinstance(told, dict) else None
                row += 1
