"""Annotated paths of Room-to-Room (Anderson et al. 2018) and its relatives: items of a file, and checks against the graphs.

An item is a dictionary with scan, path_id, path (viewpoint ids), heading (rad) and instructions (texts), and where they are
not as in R2R also

    instruction_ids  one per instruction: the data set names them itself (RxR, files of generated instructions)
    follows          true: the teacher walks the path place by place, not the shortest way to its end (R4R)
    goals            viewpoints of the region that is to be reached (NDH)
    augmented        the file of generated instructions that it comes from

Fields of R2R stay, others are dropped (`instr_encodings`, the token ids of other programs, are as large as all the rest).
path_id is a number, or a text as augmented paths have it.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.storage.files import read_json
from fedsuite.vln.data.bert_ids import text_of
from fedsuite.vln.data.graph import NavGraph
from fedsuite.vln.data.instructions import tokenize
from fedsuite.vln.data.rxr import json_lines
from fedsuite.vln.data.walking_formats import FORMATS, PLANNER, Item

SPLITS = ("train", "val_seen", "val_unseen")
FIELDS = ("distance", "scan", "path_id", "path", "heading", "instructions")
OWN_FIELDS = ("instruction_ids", "follows", "goals")
LONGEST_ID = 100  # characters
HABITAT = "holds episodes of VLN-CE, which need Habitat; give the R2R file of the same paths"
_DAMAGED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True)
class Form:
    """What items are read as. dataset: of FORMATS; pieces: of BERT's vocabulary, for instructions that are ids alone;
    ndh_path: whose path of NDH is the reference."""

    dataset: str = "r2r"
    pieces: Sequence[str] = ()
    ndh_path: str = PLANNER


R2R = Form()


def read_annotations(file: Path, form: Form = R2R) -> list[Item]:
    """Items of one annotation file, .json or .jsonl; InputError if it is not one, or if a path_id stands in it twice."""
    own = FORMATS[form.dataset]
    kind, cure = (
        f"annotations of {own.title}",
        f"data.dir needs annotations/{file.name}, fetch it again",
    )
    if lines := file.suffix == ".jsonl":
        raw: Any = list(json_lines(file))
    else:
        _refuse_lines(file)
        content = read_json(file, kind, cure)
        if isinstance(content, dict) and "episodes" in content:
            raise InputError(f"{file}: {HABITAT}")
        raw = enumerate(content, 1) if isinstance(content, list) else [(1, content)]
    items, met = list[Item](), set[Any]()
    for number, item in raw:
        place = f"{file}: {'line' if lines else 'item'} {number}"
        try:
            _check_origin(place, item, form)
            item = own.convert(_with_texts(place, item, form), form.ndh_path)
            follows = item.setdefault("follows", own.follows)
            _check_item(item)
            key = (
                (item["instruction_ids"][0], "instr_id") if lines else (item["path_id"], "path_id")
            )
        except InputError:
            raise
        except _DAMAGED as error:
            where = place.removeprefix(f"{file}: ")
            raise InputError(
                f"{file}: not {kind} ({where}: {type(error).__name__}: {error}); {cure}"
            ) from None
        if key in met:
            raise InputError(f"{place}: {key[1]} {key[0]} stands in the file twice; {cure}")
        met.add(key)
        _refuse_loop(file, item, follows)
        items.append(item)
    return [dict(_fields(item, lines)) for item in items]


def _fields(item: Item, lines: bool) -> Iterator[tuple[str, Any]]:
    """What is kept of an item."""
    yield from ((name, item[name]) for name in item if name in FIELDS)
    if lines:
        yield "instruction_ids", item["instruction_ids"]
    if item["follows"]:
        yield "follows", True
    if "goals" in item:
        yield "goals", item["goals"]


def _refuse_loop(file: Path, item: Item, follows: bool) -> None:
    again = [v for n, v in enumerate(item["path"]) if v in item["path"][:n]]
    if again and not follows:
        raise InputError(
            f"{file}: path_id {item['path_id']}: its path comes back to {again[0]}, as no path of R2R does (R4R's "
            "do); the teacher walks the shortest way to its end, so give R2R's own file or remove the path"
        )


def _refuse_lines(file: Path) -> None:
    """InputError if a .json file holds an item a line."""
    if not file.is_file():
        return
    try:
        with file.open("rb") as stream:
            first, more = stream.readline(1 << 20), stream.read(1)
    except OSError:
        return  # which reading it says
    if first.lstrip()[:1] == b"{" and first.rstrip()[-1:] == b"}" and more == b"{":
        raise InputError(
            f"{file}: holds an instruction a line, not one list; name it {file.stem}_enc.jsonl, or in data.augmented "
            "where other programs wrote the instructions"
        )


def _with_texts(place: str, item: Item, form: Form) -> Item:
    """The item with instructions, which are decoded where it holds ids alone; of a line with its instr_id."""
    own = {k: v for k, v in item.items() if k not in OWN_FIELDS}
    if "instr_id" in own:  # of a line, an instruction
        if not isinstance(name := own["instr_id"], str):
            raise TypeError("instr_id must be a text")
        own |= {"instruction_ids": [name]}
        own.setdefault("path_id", name.rpartition("_")[0])
        if isinstance(text := own.get("instruction"), str):
            own["instructions"] = [text]
    ids = own.get("instr_encodings", [own["instr_encoding"]] if "instr_encoding" in own else None)
    if "instructions" not in own and ids is not None:
        if not form.pieces:
            raise InputError(
                f"{place} holds token ids (instr_encodings) without instructions; set data.bert-vocabulary to the vocab.txt "
                "of bert-base-uncased, or give a file with the texts"
            )
        try:
            own["instructions"] = [text_of(i, form.pieces) for i in ids]
        except ValueError as error:
            raise InputError(
                f"{place}: {error}; data.bert-vocabulary must be the vocabulary that it was encoded with"
            ) from None
    return own


def _check_item(item: Any) -> None:
    """Make numbers of heading and path_id; KeyError, TypeError, ValueError where an item's fields are not R2R's."""
    texts = [item["scan"], *item["path"], *item["instructions"]]
    lists = isinstance(item["path"], list) and isinstance(item["instructions"], list)
    if not lists or not all(isinstance(t, str) for t in texts):
        raise TypeError("scan must be text, path and instructions lists of texts")
    item["heading"], item["path_id"] = float(item["heading"]), _path_id(item["path_id"])
    if not math.isfinite(item["heading"]):
        raise ValueError("heading must be a finite number")
    if not all(isinstance(v, str) for v in item.get("goals", [])):
        raise TypeError("end_panos must be texts")


def _check_origin(place: str, item: Any, form: Form) -> None:
    """InputError if an item is of another data set than the one that is said."""
    own = FORMATS[form.dataset]
    if not isinstance(item, dict):
        raise TypeError("expected an object")
    if "bboxes" in item:
        raise InputError(
            f"{place} is an item of SOON (it has bboxes); those are not read, for they ask for an object, and hold no path; "
            "give R2R's own file"
        )
    for key, other in FORMATS.items():
        field = next((f for f in other.marks if f in item and f != "id"), "")
        if other is not own and field:
            raise InputError(
                f"{place} is an item of {other.title} (it has {field}), not of {own.title}; set data.dataset={key} and name "
                f"the file {other.prefix}_<split>.json, or give {own.title}'s own file"
            )
    if own.marks and own.marks[0] not in item:
        raise InputError(
            f"{place} is no item of {own.title} (it has no {own.marks[0]}); give {own.title}'s own file, or set "
            "data.dataset to what it is of"
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
    """path_ids of the paths, checked before, that are longer than the shortest way from their start to their end, where
    the teacher walks that way."""
    found = []
    for item in (i for i in items if not i.get("follows")):
        rows = [graph.index[v] for v in item["path"]]
        walked_m = sum(float(graph.distance_m[a, b]) for a, b in pairwise(rows))
        if walked_m > float(graph.distance_m[rows[0], rows[-1]]) + 1e-6:
            found.append(item["path_id"])
    return found


def check_items(file: Path, items: Sequence[dict[str, Any]], graphs: dict[str, NavGraph]) -> None:
    """Every path must exist in its graph, be walkable, and have instructions with words."""
    for item in items:
        origin = file.with_name(item.get("augmented", file.name))
        graph, name = graphs[item["scan"]], f"{origin}: path_id {item['path_id']}"
        rows = [graph.index.get(v, -1) for v in item["path"]]
        known = zip(item["path"], rows, strict=True)
        bad = [v for v, r in known if r < 0 or not graph.included[r]]
        bad += [v for v in item.get("goals", ()) if v not in graph.index]
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
