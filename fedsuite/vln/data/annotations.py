"""Annotated paths of Room-to-Room (Anderson et al. 2018): reading a file, and checking paths against the graphs.

An item is a dictionary with scan, path_id, path (viewpoint ids), heading (rad) and instructions (texts); items of RxR
(`rxr.py`) also hold instruction_ids, one per instruction. Fields of R2R stay, others are dropped (`instr_encodings`, the
token ids of other programs, are as large as all the rest). path_id is a number, or a text as augmented paths have it.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.storage.files import read_json
from fedsuite.vln.data.graph import NavGraph
from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.data.rxr import guide_file
from fedsuite.vln.message_keys import TEST

SPLITS = ("train", "val_seen", "val_unseen")
FIELDS = ("distance", "scan", "path_id", "path", "heading", "instructions")
LONGEST_ID = 100  # characters
_REVERIE = ("REVERIE", "they ask for an object, which no agent here looks for and no score counts")
OTHERS = {  # fields that only items of another data set have: its name, and why they are not read
    "first_path_id": (
        "R4R", "their paths are no shortest ways, and the teacher would walk the shortest way to their end"
    ),
    "objId": _REVERIE,
    "instructions_l": _REVERIE,
    "dialog_history": ("CVDN (NDH)", "they are dialogues whose goal is a region"),
    "bboxes": ("SOON", "they ask for an object, and hold no path"),
}  # fmt: skip


def annotation_files(data_dir: Path, dataset: str) -> dict[str, Path]:
    """The annotation file of every split, whether it is there or not. dataset: r2r or rxr."""
    folder = data_dir / "annotations"
    if dataset == "rxr":
        return {s: guide_file(folder, s) for s in SPLITS}
    return {s: folder / f"R2R_{s}.json" for s in SPLITS}


def test_file(data_dir: Path) -> Path:
    """Instructions of the R2R leaderboard; a path there holds its start alone."""
    return data_dir / "annotations" / f"R2R_{TEST}.json"


def read_annotations(file: Path) -> list[dict[str, Any]]:
    """Items of one R2R annotation file; InputError if it is not one, or if a path_id stands in it twice."""
    kind, cure = "an R2R annotation file", f"data.dir needs annotations/{file.name}, fetch it again"
    items, met = read_json(file, kind, cure), set()
    if isinstance(items, dict) and "episodes" in items:
        raise InputError(
            f"{file}: holds episodes of VLN-CE, which need Habitat; give the R2R file of the same paths"
        )
    try:
        for number, item in enumerate(items, 1):
            _check_origin(file, number, item)
            _check_item(item)
            if item["path_id"] in met:
                raise ValueError(f"path_id {item['path_id']} stands in it twice")
            met.add(item["path_id"])
            if again := [v for n, v in enumerate(item["path"]) if v in item["path"][:n]]:
                raise InputError(
                    f"{file}: path_id {item['path_id']}: its path comes back to {again[0]}, as no path of R2R does (R4R's "
                    "do); the teacher walks the shortest way to its end, so give R2R's own file or remove the path"
                )
    except InputError:
        raise
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not {kind} ({type(error).__name__}: {error}); {cure}") from None
    return [{name: item[name] for name in item if name in FIELDS} for item in items]


def _check_item(item: Any) -> None:
    """Make numbers of heading and path_id; KeyError, TypeError, ValueError where an item's fields are not R2R's."""
    texts = [item["scan"], *item["path"], *item["instructions"]]
    lists = isinstance(item["path"], list) and isinstance(item["instructions"], list)
    if not lists or not all(isinstance(t, str) for t in texts):
        raise TypeError("scan must be text, path and instructions lists of texts")
    item["heading"], item["path_id"] = float(item["heading"]), _path_id(item["path_id"])
    if not math.isfinite(item["heading"]):
        raise ValueError("heading must be a finite number")


def _check_origin(file: Path, number: int, item: Any) -> None:
    """InputError if an item is of a data set that is not read, or holds token ids in place of texts."""
    own = item if isinstance(item, dict) else {}
    name = f"{file}: item {number}"
    for field in (f for f in OTHERS if f in own):
        origin, why = OTHERS[field]
        raise InputError(
            f"{name} is an item of {origin} (it has {field}); those are not read, for {why}; give R2R's own file"
        )
    if "instructions" not in own and any(k.startswith("instr_encoding") for k in own):
        raise InputError(
            f"{name} holds token ids (instr_encodings) without instructions; give a file with the texts"
        )


def _path_id(value: object) -> int | str:
    """The number, also where it is written as a text; any other text as it is."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= LONGEST_ID:
        return int(value) if re.fullmatch(r"-?[0-9]+", value) else value
    raise ValueError(f"path_id must be a whole number or a short text, got {value!r:.60}")


def detours(items: Sequence[dict[str, Any]], graph: NavGraph) -> list[int | str]:
    """path_ids of the paths, checked before, that are longer than the shortest way from their start to their end."""
    found = []
    for item in items:
        rows = [graph.index[v] for v in item["path"]]
        walked_m = sum(float(graph.distance_m[a, b]) for a, b in pairwise(rows))
        if walked_m > float(graph.distance_m[rows[0], rows[-1]]) + 1e-6:
            found.append(item["path_id"])
    return found


def check_items(file: Path, items: Sequence[dict[str, Any]], graphs: dict[str, NavGraph]) -> None:
    """Every path must exist in its graph, be walkable, and have instructions with words."""
    for item in items:
        graph, name = graphs[item["scan"]], f"{file}: path_id {item['path_id']}"
        rows = [graph.index.get(v, -1) for v in item["path"]]
        known = zip(item["path"], rows, strict=True)
        bad = [v for v, r in known if r < 0 or not graph.included[r]]
        if bad or not rows:
            raise InputError(
                f"{name}: viewpoint {(bad or ['(none)'])[0]} is not in the graph of {graph.scan}; annotations and "
                "connectivity do not belong together"
            )
        for a, b in pairwise(rows):
            if not graph.edge[a, b]:
                raise InputError(
                    f"{name}: no edge from {graph.viewpoint_ids[a]} to {graph.viewpoint_ids[b]} in {graph.scan}; "
                    "annotations and connectivity do not belong together"
                )
        if not item["instructions"] or not all(tokenize(t) for t in item["instructions"]):
            raise InputError(
                f"{name}: an instruction is missing or empty; give it words or remove the path"
            )
