"""Generated roads as a LeRobot folder (v3.0 of Hugging Face's LeRobot), for this and other programs.

    <folder>/meta/info.json, stats.json, tasks.parquet, episodes/   what the rows are; splits: train, then test
    <folder>/data/chunk-<k>/file-<n>.parquet                        an episode each: one silo's training or test frames
    <folder>/drives.toml                                            sign and unit for this project's own reader

`action[steering_angle]` is in radians, LEFT POSITIVE; `observation.images.front` are RGB pictures in PNG, without loss. A
task is the name of a silo. Generated frames are no film: they are 1 / FPS s apart because the format asks for times.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import SPLITS, Frames, open_silo, silo_names
from fedsuite.driving.data.readers.lerobot.schema import V3
from fedsuite.driving.data.sources import prepare_sources
from fedsuite.driving.plan import make_plan
from fedsuite.errors import InputError
from fedsuite.storage.files import make_new_folder, telling, write_json
from fedsuite.storage.progress import Progress, silent

FPS, CHUNK = 10, 1000
CAMERA, ACTION, AXIS = "observation.images.front", "action", "steering_angle"
DATA, _ = V3
_COUNTED = ("frame_index", "episode_index", "index", "task_index")


def export_lerobot(config: CDLConfig, folder: Path, progress: Progress = silent) -> Path:
    """Write the roads that `config` generates to the new `folder`, and return it.

    InputError: data.dir is set, or there is something at `folder` already.
    """
    if config.data.dir:
        raise InputError(
            f"data.dir: {config.data.dir} holds drives already, and only generated roads are exported; leave it out"
        )

    def fill(partial: Path) -> None:
        count = config.data.num_silos or make_plan(config).num_data_silos
        source = prepare_sources(config.drawn_data, count, (), progress)
        with telling(partial):
            _write(partial, source, progress)

    make_new_folder(folder, fill, progress)
    return folder


def _write(folder: Path, source: Path, progress: Progress) -> None:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = silo_names(source)
    silos = [open_silo(source, name) for name in names]
    parts: list[Frames] = [getattr(silo, split) for split in SPLITS for silo in silos]
    meta = folder / "meta"
    (meta / "episodes" / "chunk-000").mkdir(parents=True)
    first, episodes = 0, []
    for number, part in enumerate(parts):
        place = {"chunk_index": number // CHUNK, "file_index": number % CHUNK}
        file, task = folder / DATA.format(**place), number % len(names)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened, pq.ParquetWriter(opened, _schema(pa)) as out:
            for table in _tables(pa, part, number, first, task):
                out.write_table(table)
        row: dict[str, Any] = {"episode_index": number, "tasks": [names[task]], "length": len(part)}
        row |= {f"data/{k}": v for k, v in place.items()}
        row |= {"dataset_from_index": first, "dataset_to_index": first + len(part)}
        episodes.append(row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
        first += len(part)
        progress("silos' frames that are written", number + 1, len(parts))
    with (meta / "episodes" / "chunk-000" / "file-000.parquet").open("wb") as opened:
        pq.write_table(pa.Table.from_pylist(episodes), opened)
    # LeRobot finds a task by its place, and its text in the index that pandas stores beside the columns.
    pd.DataFrame({"task_index": range(len(names))}, index=names).to_parquet(meta / "tasks.parquet")
    write_json(meta / "info.json", _info(parts, len(names)))
    write_json(meta / "stats.json", {ACTION: _statistics(parts)})
    (folder / "drives.toml").write_text(
        f'["*"]\nangle-unit = "radians"\npositive = "left"\nsteering = {json.dumps(f"{ACTION}[{AXIS}]")}\n'
        f"camera = {json.dumps(CAMERA)}\n",
        encoding="utf-8",
    )


def _schema(pa: Any) -> Any:
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = [(ACTION, pa.float32()), (CAMERA, picture), ("timestamp", pa.float32())]
    return pa.schema([*columns, *((name, pa.int64()) for name in _COUNTED)])


def _tables(pa: Any, part: Frames, episode: int, first: int, task: int) -> Iterator[Any]:
    """The rows of one episode, 256 at a time."""
    for start in range(0, len(part), 256):
        places = np.arange(start, min(start + 256, len(part)))
        columns = {
            ACTION: [
                float(part.angles[i]) for i in places
            ],  # of shape [1] LeRobot has the number itself
            CAMERA: [{"bytes": _png(part.images[i]), "path": None} for i in places],
            "timestamp": (places / FPS).astype(np.float32),
            "frame_index": places,
            "episode_index": np.full_like(places, episode),
            "index": places + first,
            "task_index": np.full_like(places, task),
        }
        yield pa.table(columns, schema=_schema(pa))


def _png(image: np.ndarray) -> bytes:
    """uint8 [C, H, W], C = 1 or 3, as an RGB picture."""
    out = io.BytesIO()
    rows = np.broadcast_to(image, (3, *image.shape[1:])).transpose(1, 2, 0)
    Image.fromarray(np.ascontiguousarray(rows)).save(out, "PNG")
    return out.getvalue()


def _info(parts: list[Frames], silos: int) -> dict[str, Any]:
    height, width = parts[0].images.shape[2:]
    single = {"shape": [1], "names": None}
    features: dict[str, Any] = {
        ACTION: {"dtype": "float32", "shape": [1], "names": [AXIS]},
        CAMERA: {"dtype": "image", "shape": [height, width, 3], "names": ["height", "width", "channels"]},
        "timestamp": {"dtype": "float32", **single},
    }  # fmt: skip
    features |= {name: {"dtype": "int64", **single} for name in _COUNTED}
    return {
        "codebase_version": "v3.0",
        "robot_type": "generated car",
        "total_episodes": len(parts),
        "total_frames": sum(map(len, parts)),
        "total_tasks": silos,
        "chunks_size": CHUNK,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": FPS,
        "splits": {"train": f"0:{silos}", "test": f"{silos}:{2 * silos}"},
        "data_path": DATA,
        "video_path": None,
        "features": features,
    }


def _statistics(parts: list[Frames]) -> dict[str, list[float]]:
    angles = np.concatenate([np.asarray(part.angles, np.float64) for part in parts])
    found = {"min": angles.min(), "max": angles.max(), "mean": angles.mean(), "std": angles.std()}
    return {k: [float(v)] for k, v in found.items()} | {"count": [len(angles)]}
