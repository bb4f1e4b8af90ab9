"""Data sets of instructions on the graphs of Matterport3D, their items made into items of Room-to-Room's form.

r2r       Room-to-Room (Anderson et al. 2018, 1711.07280).
r4r       Room-for-Room (Jain et al. 2019, 1905.12255): two paths of R2R joined, of which the teacher follows every place; a
          text is one of the first and one of the second path, without a blank between them.
reverie   REVERIE (Qi et al. 2020, 1904.10151): high-level instructions; one path stands in it with several objects. The
          object is not looked for, so that success is that of coming to the annotated viewpoint.
ndh       Navigation from Dialog History (Thomason et al. 2019, 1907.04957): the target and what was said so far are the
          instruction, a region is the goal, and the progress towards it is scored.
rxr       Room-across-Room, see rxr.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Item = dict[str, Any]
PLAYER, PLANNER = "player", "planner"
_SENTENCE_ENDS = ".!?,;:"


@dataclass(frozen=True)
class WalkingFormat:
    """prefix: of its files; title: its name; marks: fields that its items alone have, the first of which all have; convert:
    an item's own fields, and the value of data.ndh-path -> R2R's; follows: the teacher walks a path place by place, even one
    that comes back; scored: what its scores are."""

    prefix: str
    title: str
    marks: tuple[str, ...] = ()
    convert: Callable[[Item, str], Item] = lambda item, way: item
    follows: bool = False
    scored: str = ""


def _r4r(item: Item, _: str) -> Item:
    return {**item, "instructions": parted(item["instructions"])}


def _reverie(item: Item, _: str) -> Item:
    return {**item, "path_id": f"{item['id']}"}


def _ndh(item: Item, way: str) -> Item:
    """way: whose path is the reference, the player's or the planner's; the test split has neither."""
    said = [turn["message"] for turn in item["dialog_history"]]
    text = " ".join([f"{item['target']} .", *said]) if said else item["target"]
    start, path = item["start_pano"], item[f"{way}_path"]
    if path[:1] != [start["pano"]]:
        raise ValueError(f"{way}_path starts at {path[:1]}, start_pano is {start['pano']}")
    return {
        "scan": item["scan"],
        "path_id": item["inst_idx"],
        "path": path,
        "heading": start["heading"],
        "instructions": [text],
        "goals": item["end_panos"],
        "follows": way == PLAYER,
    }


FORMATS: Mapping[str, WalkingFormat] = {
    "r2r": WalkingFormat("R2R", "R2R"),
    "r4r": WalkingFormat("R4R", "R4R", ("first_path_id",), _r4r, follows=True),
    "reverie": WalkingFormat(
        "REVERIE", "REVERIE", ("id", "objId", "instructions_l"), _reverie,
        scored="nobody looks for the object: sr is success at the annotated viewpoint, and none of REVERIE's own scores",
    ),
    "ndh": WalkingFormat(
        "NDH", "CVDN (NDH)", ("dialog_history",), _ndh,
        scored="gp is the progress towards the goal's region in metres; sr and others are of the end of the path",
    ),
}  # fmt: skip


def parted(texts: Sequence[str]) -> list[str]:
    """R4R's texts, a blank set in where two instructions were joined without one.

    Text n2 i + j is the i-th instruction of the first path and the j-th of the second. So the first is at most what all
    texts of its row begin with, and the second at most what those of its column end with; within that the place behind a
    sign, or before a capital letter, is taken. What stays in doubt stays as it is.
    """
    count = len(texts)
    for rows in sorted((n for n in range(2, count) if count % n == 0), key=lambda n: (n != 3, n)):
        columns = count // rows
        table = [list(texts[r * columns : (r + 1) * columns]) for r in range(rows)]
        head = [_alike(row) for row in table]
        tail = [_alike([row[c][::-1] for row in table]) for c in range(columns)]
        least = [max(len(text) - t for text, t in zip(row, tail, strict=True)) for row in table]
        if all(low <= high for low, high in zip(least, head, strict=True)):
            cuts = [
                _cut(row[0], low, high) for row, low, high in zip(table, least, head, strict=True)
            ]
            return [_apart(t, cut) for row, cut in zip(table, cuts, strict=True) for t in row]
    return list(texts)


def _alike(texts: Sequence[str]) -> int:
    """How many letters all texts begin with."""
    first, last = min(texts), max(texts)
    pairs = zip(first, last, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(last)))


def _cut(text: str, low: int, high: int) -> int:
    """Where the second instruction begins, at least `low` and at most `high`; 0 where nothing tells."""
    places = [n for n in range(max(low, 1), min(high, len(text) - 1) + 1)]
    rules: tuple[Callable[[str, str], bool], ...] = (
        lambda a, b: a in _SENTENCE_ENDS and b.isalnum(),
        lambda a, b: a.islower() and b.isupper(),
    )
    for rule in rules:
        if found := [n for n in places if rule(text[n - 1], text[n])]:
            return found[0]
    return places[0] if len(places) == 1 else 0


def _apart(text: str, cut: int) -> str:
    if not cut or text[cut - 1].isspace() or text[cut].isspace():
        return text
    return f"{text[:cut]} {text[cut:]}"
