"""What a house knows about itself: its graph, its views and its own instructions.

A prepared folder keeps each house apart, so that a client opens nothing of another house:

    <houses>/manifest.json              order of houses, splits, counts, feature width
    <houses>/vocabulary.json            the words all agents share
    <houses>/<scan>/episodes.json       the scan's items of every split (annotations.py says what is in one)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import read_json
from fedsuite.vln.data.graph import HEADINGS, VIEW_STEP_RAD, Candidates, NavGraph, load_graph
from fedsuite.vln.data.instructions import Vocabulary
from fedsuite.vln.environment import Episodes, World, build_world

HORIZON_ROW = 1
MANIFEST = ("splits", "samples", "panoramas", "vocabulary")
REMAKE = "move the folder houses-... away, the next run makes it anew from the annotations"


@dataclass(frozen=True)
class Sample:
    """One (path, instruction) pair. path: panorama rows of the house; tokens int64 [L].

    instr_id: "<path_id>_<k>" in R2R, the guide's instruction_id in RxR; path_id: -1 if nobody annotated the path; follows:
    the teacher walks the path place by place (R4R), not the shortest way to its end; goals: rows of the region that is to be
    reached (NDH).
    """

    instr_id: str
    scan: str
    path: tuple[int, ...]
    start_view: int
    tokens: np.ndarray
    text: str
    path_id: int | str = -1
    follows: bool = False
    goals: tuple[int, ...] = ()


@dataclass(frozen=True)
class House:
    """One scan as its owner sees it. views [P, 36, F] float32, memory-mapped; samples by split."""

    graph: NavGraph
    views: np.ndarray
    candidates: Candidates
    samples: dict[str, tuple[Sample, ...]]


def start_view(heading_rad: float) -> int:
    """View of the horizon row that the simulator snaps a heading to (half away from zero)."""
    turn = heading_rad % (2 * math.pi) / VIEW_STEP_RAD
    return HORIZON_ROW * HEADINGS + math.floor(turn + 0.5) % HEADINGS


def read_prepared(houses_dir: Path, name: str, holds: Sequence[str] = ()) -> Any:
    """A JSON file of a prepared folder; InputError if it is not there, damaged, or no object that `holds` these."""
    content = read_json(houses_dir / name, "as it was prepared", REMAKE)
    if holds and not (isinstance(content, dict) and set(holds) <= content.keys()):
        raise InputError(f"{houses_dir / name}: lacks one of {', '.join(holds)}; {REMAKE}")
    return content


def read_manifest(houses_dir: Path) -> dict[str, Any]:
    """manifest.json of a prepared folder."""
    found: dict[str, Any] = read_prepared(houses_dir, "manifest.json", MANIFEST)
    if not all(isinstance(found[key], dict) for key in MANIFEST[:3]):
        raise InputError(f"{houses_dir / 'manifest.json'}: no tables of houses; {REMAKE}")
    return found


@lru_cache(maxsize=8)
def load_vocabulary(houses_dir: Path) -> Vocabulary:
    """The vocabulary of a prepared folder; InputError if it has not as many words as the manifest says."""
    words, manifest = read_prepared(houses_dir, "vocabulary.json"), read_manifest(houses_dir)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise InputError(f"{houses_dir / 'vocabulary.json'}: not a list of words; {REMAKE}")
    if len(words) != manifest["vocabulary"]:
        raise InputError(
            f"{houses_dir}: vocabulary.json holds {len(words)} words, but manifest.json says {manifest['vocabulary']}; "
            + REMAKE
        )
    return Vocabulary(tuple(words))


def load_samples(
    houses_dir: Path, graph: NavGraph, max_length: int, vocabulary: Vocabulary
) -> dict[str, tuple[Sample, ...]]:
    """The scan's own samples by split, in file order, one per instruction."""
    items = read_prepared(houses_dir, f"{graph.scan}/episodes.json")
    try:
        return _samples(items, graph, max_length, vocabulary)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{houses_dir / graph.scan / 'episodes.json'}: not as it was prepared ({type(error).__name__}: "
            f"{one_line(str(error), 200)}); {REMAKE}"
        ) from None


def _samples(
    items: Any, graph: NavGraph, max_length: int, vocabulary: Vocabulary
) -> dict[str, tuple[Sample, ...]]:
    return {
        split: tuple(
            Sample(
                instr_id=names[k],
                scan=graph.scan,
                path=tuple(graph.index[v] for v in item["path"]),
                start_view=start_view(item["heading"]),
                tokens=vocabulary.encode(text, max_length),
                text=text,
                path_id=item["path_id"],
                follows=bool(item.get("follows")),
                goals=tuple(graph.index[v] for v in item.get("goals", ())),
            )
            for item in rows
            for names in [_instruction_names(item)]
            for k, text in enumerate(item["instructions"])
        )
        for split, rows in items.items()
    }


def _instruction_names(item: dict[str, Any]) -> list[str]:
    numbered = [f"{item['path_id']}_{k}" for k in range(len(item["instructions"]))]
    return list(item.get("instruction_ids", numbered))


def load_house(
    houses_dir: Path,
    connectivity_dir: Path,
    views_dir: Path,
    scan: str,
    max_length: int,
    simulator: str = "tables",
    vocabulary: Vocabulary | None = None,
) -> House:
    """Open one house; views stay on disk and are shared between processes. vocabulary: None = the prepared folder's."""
    graph = load_graph(connectivity_dir, scan)
    if simulator == "tables":
        candidates = graph.candidates
    else:
        from fedsuite.vln.data.candidates import candidates_by_simulator

        candidates = candidates_by_simulator(connectivity_dir, graph, simulator)
    # Copy-on-write keeps the file untouched and gives torch the writable buffer that it asks for.
    views = np.load(views_dir / f"{scan}.npy", mmap_mode="c")
    words = load_vocabulary(houses_dir) if vocabulary is None else vocabulary
    return House(graph, views, candidates, load_samples(houses_dir, graph, max_length, words))


def join_houses(houses: Sequence[House], device: str | torch.device = "cpu") -> World:
    """The world of one or more houses."""
    return build_world(
        [h.graph for h in houses], [h.views for h in houses], [h.candidates for h in houses], device
    )


def make_episodes(samples: Sequence[Sample], world: World) -> Episodes:
    """Encode a mini-batch; every sample's scan must be in `world`."""
    first = dict(zip(world.scans, world.first_row, strict=False))
    length = [len(s.tokens) for s in samples]
    tokens = np.zeros((len(samples), max(length)), np.int64)
    for row, s in zip(tokens, samples, strict=True):
        row[: len(s.tokens)] = s.tokens
    offset = [first[s.scan] for s in samples]
    ends = [
        (o + s.path[0], s.start_view, o + s.path[-1]) for o, s in zip(offset, samples, strict=True)
    ]
    # Moved at once: on a GPU each move costs more than its bytes.
    numbers = torch.from_numpy(np.concatenate([*np.array(ends).T, *tokens])).to(world.device)
    start, view, goal = numbers[: 3 * len(samples)].view(3, -1)
    words = numbers[3 * len(samples) :].view(tokens.shape)
    way = _ways(samples, offset, world) if any(s.follows for s in samples) else None
    return Episodes(words, torch.tensor(length), start, view, goal, way=way)


def _ways(samples: Sequence[Sample], offset: Sequence[int], world: World) -> torch.Tensor:
    """[B, M]: rows of the places to visit, the last again and again."""
    ways = [s.path if s.follows else (s.path[0], s.path[-1]) for s in samples]
    longest = max(map(len, ways))
    rows = [
        [o + place for place in (*way, *way[-1:] * (longest - len(way)))]
        for o, way in zip(offset, ways, strict=True)
    ]
    return torch.tensor(rows, device=world.device)
