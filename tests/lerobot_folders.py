"""Small LeRobot folders and videos that tests write, whose pictures tell which frame they are."""

import io
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

FPS, CAMERA = 10, "observation.images.front"
V2 = (
    "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
    "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
)
V3 = (
    "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
    "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
)


def coded(code: int, size: int = 64) -> np.ndarray:
    """uint8 [size, size, 3]: eight black or white bars, a number of 8 bits, the most significant first."""
    bits = [code >> (7 - bit) & 1 for bit in range(8)]
    row = np.repeat(np.array(bits, np.uint8) * 255, size // 8)
    return np.broadcast_to(row[None, :, None], (size, size, 3)).copy()


def code_of(frame: np.ndarray) -> int:
    """The number in a picture, grey [H, W]."""
    bars = np.array_split(frame.mean(axis=0), 8)
    return int("".join(str(int(bar.mean() > 128)) for bar in bars), 2)


def write_video(
    file: Path,
    codes: Sequence[int],
    form: str = "mp4",
    size: int = 64,
    fps: int = FPS,
    **options: str,
) -> None:
    """H.264 in mp4, or a bare H.265 stream."""
    file.parent.mkdir(parents=True, exist_ok=True)
    codec = "libx264" if form == "mp4" else "libx265"
    # As they come, both read memory beyond the pictures, and one file in fifty has other bytes; threads of x265 may wait
    # for each other for ever.
    steady = {"x264-params": "asm=0"}
    if form != "mp4":
        x265 = "log-level=none:pools=none:frame-threads=1"
        steady = {"preset": "ultrafast", "x265-params": x265}
    with av.open(str(file), "w", format=form) as out:
        stream = out.add_stream(codec, rate=fps, options={"crf": "20"} | steady | options)
        stream.width, stream.height, stream.pix_fmt = size, size, "yuv420p"
        for number, code in enumerate(codes):
            frame = av.VideoFrame.from_ndarray(coded(code % 256, size), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def angle_of(row: int) -> float:
    """What the car steers in a row of the whole folder."""
    return float(np.float32(np.sin(row / 5) / 2))


def write_lerobot(
    folder: Path,
    lengths: Sequence[int] = (12, 7, 15),
    version: str = "v3.0",
    cameras: Sequence[str] = (CAMERA,),
    embedded: bool = False,
    lists: bool = False,
    features: dict[str, Any] | None = None,
    task_column: str = "task",
) -> Path:
    """Codes are the rows of the folder, 10 a second; v3.0: two episodes a video. `features` replaces those that steer."""
    steer = features or {
        "action": ["steering", "throttle"],
        "observation.state": ["speed", "heading"],
    }
    total, newer = sum(lengths), version == "v3.0"
    layout = V3 if newer else V2
    told = {k: {"dtype": "float32", "shape": [len(n)], "names": n} for k, n in steer.items()}
    kind = "image" if embedded else "video"
    told |= {c: {"dtype": kind, "shape": [64, 64, 3], "names": ["h", "w", "c"]} for c in cameras}
    info = {
        "codebase_version": version, "fps": FPS, "total_episodes": len(lengths), "total_frames": total,
        "chunks_size": 1000, "data_path": layout[0], "video_path": None if embedded else layout[1],
        "features": told,
    }  # fmt: skip
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    starts = np.cumsum([0, *lengths])[:-1].tolist()
    tables = [
        _rows(n, e, starts[e], steer, cameras if embedded else (), lists)
        for e, n in enumerate(lengths)
    ]
    if newer:
        _write(folder / layout[0].format(chunk_index=0, file_index=0), pa.concat_tables(tables))
        own = [
            _episode(e, lengths, starts, () if embedded else cameras) for e in range(len(lengths))
        ]
        _write(folder / "meta/episodes/chunk-000/file-000.parquet", pa.Table.from_pylist(own))
        tasks = pa.table({"task_index": [0], task_column: ["drive"]})
        _write(folder / "meta/tasks.parquet", tasks)
    else:
        lines = [
            json.dumps({"episode_index": e, "tasks": [], "length": n})
            for e, n in enumerate(lengths)
        ]
        (folder / "meta" / "episodes.jsonl").write_text("\n".join(lines) + "\n")
        for e, table in enumerate(tables):
            _write(folder / layout[0].format(episode_chunk=0, episode_index=e), table)
    for camera in () if embedded else cameras:
        pairs = (
            [(e, e + 1) for e in range(0, len(lengths), 2)]
            if newer
            else [(e,) for e in range(len(lengths))]
        )
        for number, pair in enumerate(pairs):
            codes = [starts[e] + i for e in pair if e < len(lengths) for i in range(lengths[e])]
            at = {
                "chunk_index": 0,
                "file_index": number,
                "episode_chunk": 0,
                "episode_index": number,
            }
            write_video(folder / layout[1].format(**at, video_key=camera), codes)
    return folder


def edit(file: Path, **changes: Any) -> None:
    """Replaces values of a JSON file, or columns of a parquet file (`name=function of its list`)."""
    if file.suffix == ".json":
        file.write_text(
            json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8"
        )
        return
    table = pq.read_table(file)
    for name, change in changes.items():
        column = table.column(name)
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(change(column.to_pylist()), column.type))
    pq.write_table(table, file)


def _write(file: Path, table: pa.Table) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)


def _rows(
    n: int, episode: int, start: int, steer: dict[str, Any], pictures: Sequence[str], lists: bool
) -> pa.Table:
    columns: dict[str, Any] = {}
    for key, names in steer.items():
        values = [
            [angle_of(start + i) + 0.01 * axis for axis in range(len(names))] for i in range(n)
        ]
        fixed = pa.list_(pa.float32(), len(names))
        columns[key] = pa.array(values, pa.list_(pa.float32()) if lists else fixed)
    for key in pictures:
        columns[key] = pa.array([{"bytes": png(start + i), "path": None} for i in range(n)])
    columns["timestamp"] = pa.array([i / FPS for i in range(n)], pa.float32())
    columns["frame_index"] = list(range(n))
    columns["episode_index"] = [episode] * n
    columns["index"] = [start + i for i in range(n)]
    return pa.table(columns)


def png(code: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(coded(code)).save(out, "PNG")
    return out.getvalue()


def _episode(
    e: int, lengths: Sequence[int], starts: Sequence[int], cameras: Sequence[str]
) -> dict[str, Any]:
    begin = (starts[e] - starts[e - e % 2]) / FPS
    row: dict[str, Any] = {
        "episode_index": e,
        "length": lengths[e],
        "data/chunk_index": 0,
        "data/file_index": 0,
    }
    for camera in cameras:
        own = {
            "chunk_index": 0,
            "file_index": e // 2,
            "from_timestamp": begin,
            "to_timestamp": begin + lengths[e] / FPS,
        }
        row |= {f"videos/{camera}/{key}": value for key, value in own.items()}
    return row
