"""Annotated paths of Room-to-Room (Anderson et al. 2018): reading a file, and checking paths against the graphs.

An item is a dictionary with scan, path_id, path (viewpoint ids), heading (rad) and instructions (texts); items of RxR
(`rxr.py`) also hold instruction_ids, one per instruction.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.files import read_json
from fedsuite.vln.data.graph import NavGraph
from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.data.rxr import guide_file
from fedsuite.vln.message_keys import TEST

SPLITS = ("train", "val_seen", "val_unseen")


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
    try:
        for item in items:
            texts = [item["scan"], *item["path"], *item["instructions"]]
            lists = isinstance(item["path"], list) and isinstance(item["instructions"], list)
            if not lists or not all(isinstance(t, str) for t in texts):
                raise TypeError("scan must be text, path and instructions lists of texts")
            item["heading"], item["path_id"] = float(item["heading"]), int(item["path_id"])
            if not math.isfinite(item["heading"]):
                raise ValueError("heading must be a finite number")
            if item["path_id"] in met:
                raise ValueError(f"path_id {item['path_id']} stands in it twice")
            met.add(item["path_id"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{file}: not {kind} ({type(error).__name__}: {error}); {cure}") from None
    return list(items)


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
