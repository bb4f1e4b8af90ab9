"""What is said of the instructions of a FedVLN speaker.

<run>/results.md      after the scores: statistics of its instructions beside the human ones (Zhou & Wang 2022, Table 1),
                      and some examples
<run>/statistics.csv  the same statistics
<run>/verbs.png       uses of verbs (Figure 4)

What the speaker said is read from what the houses keep, clients/<house>/spoken_<split>.json; where houses live
elsewhere there is nothing to read, and results.md says so.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from fedsuite.errors import InputError
from fedsuite.reports.outcomes import Column, cells
from fedsuite.reports.plots import COLOURS, blank_figure, save_figure
from fedsuite.reports.tables import markdown_table
from fedsuite.storage.escaping import csv_text, in_markdown
from fedsuite.vln.evaluation.statistics import (
    InstructionStatistics,
    instruction_statistics,
    verb_frequencies,
)
from fedsuite.vln.message_keys import VALIDATION
from fedsuite.vln.report.outcome import SPLIT_NAMES, TEXTS, FedVLNOutcome

EXAMPLES = 3
MOST_VERBS = 15
_HATCHES = ("", "///")  # of human and of generated instructions
_GROUP_WIDTH = 0.8
_WHOLE = frozenset(("count", "vocabulary"))


@dataclass(frozen=True)
class Spoken:
    """One path: what the speaker said of it, and what humans did."""

    path_id: int | str
    instruction: str
    references: tuple[str, ...]


def read_spoken(run_dir: Path) -> dict[str, list[Spoken]]:
    """What all houses' speakers said, by split, in order of houses and of their files; {} if nothing is there."""
    found: dict[str, list[Spoken]] = {}
    for split in VALIDATION:
        for file in sorted(run_dir.glob(f"clients/*/spoken_{split}.json")):
            found.setdefault(split, []).extend(_spoken(file))
    return {split: own for split, own in found.items() if own}


def _spoken(file: Path) -> list[Spoken]:
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return [Spoken(r["path_id"], r["instruction"], tuple(r["references"])) for r in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file}: expected a list of path_id, instruction and references, got {error!r}; run the speaker again"
        ) from None


def texts_of(spoken: Sequence[Spoken]) -> dict[str, list[str]]:
    """Texts of one split; human ones the first of every path, then the second, ..: the measure of variety asks for it."""
    most = max(len(s.references) for s in spoken)
    human = [s.references[k] for k in range(most) for s in spoken if k < len(s.references)]
    return {"human": human, "generated": [s.instruction for s in spoken]}


def statistics_of(
    spoken: Mapping[str, Sequence[Spoken]],
) -> dict[tuple[str, str], InstructionStatistics]:
    """(split, "human" or "generated") -> statistics."""
    return {
        (split, source): instruction_statistics(texts)
        for split, own in spoken.items()
        for source, texts in texts_of(own).items()
    }


def with_statistics(outcome: FedVLNOutcome, run_dir: Path) -> FedVLNOutcome:
    """With statistics of what was said in the run as metrics `<split>.<source>.<statistic>`, if it is kept there."""
    found = dict(outcome.metrics)
    for (split, source), own in statistics_of(read_spoken(run_dir)).items():
        found |= {f"{split}.{source}.{k}": v for k, v in asdict(own).items()}
    return replace(outcome, metrics=found)


def statistics_rows(
    split: str, lines: Iterable[tuple[str, str, Sequence[FedVLNOutcome]]]
) -> list[dict[str, str]]:
    """One row per name, source of the texts (human or generated) and outcomes; none where nothing is kept."""
    rows = []
    for name, source, outcomes in lines:
        start, titles = f"{split}.{source}.", TEXTS["statistics"].items()
        columns = [Column(t, start + k, 0 if k in _WHOLE else 2) for k, t in titles]
        if own := [o for o in outcomes if f"{start}count" in o.metrics]:
            rows.append({"instructions": f"{SPLIT_NAMES[split]}, {name}"} | cells(own, columns))
    return rows


def spoken_text(outcome: FedVLNOutcome, run_dir: Path) -> str:
    """Statistics and examples of what a speaker said; writes statistics.csv and draws verbs.png."""
    spoken = read_spoken(run_dir)
    if not spoken:
        return str(TEXTS["nothing_spoken"])
    lines = [
        {"split": split, "instructions": source, **asdict(own)}
        for (split, source), own in statistics_of(spoken).items()
    ]
    text = csv_text(pd.DataFrame(lines))
    (run_dir / "statistics.csv").write_text(text, encoding="utf-8")
    own = [with_statistics(outcome, run_dir)]
    sources = [(source, source, own) for source in ("human", "generated")]
    rows = [row for split in spoken for row in statistics_rows(split, sources)]
    verbs = _draw_verbs(spoken, run_dir / "verbs.png")
    parts = [markdown_table(rows), TEXTS["statistics_note"], verbs, _examples_text(spoken)]
    return "\n".join(part for part in parts if part)


def _draw_verbs(spoken: Mapping[str, Sequence[Spoken]], path: Path) -> str:
    """Bars of all splits together; says so where there is nothing to draw."""
    texts = texts_of([s for own in spoken.values() for s in own])
    uses = {source: verb_frequencies(own) for source, own in texts.items()}
    if not any(uses.values()):
        return "No verbs.png: none of the known (English) verbs is used.\n"
    verbs_plot(uses, path)
    return ""


def verbs_plot(frequencies: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Bars side by side, of the verbs with the largest sums. frequencies: label -> verb -> uses per instruction."""
    verbs = common_verbs(frequencies, MOST_VERBS)
    figure, axes = blank_figure(9.0, 3.6)
    places, width = np.arange(len(verbs)), _GROUP_WIDTH / len(frequencies)
    for number, (label, uses) in enumerate(frequencies.items()):
        axes.bar(
            places + (number - (len(frequencies) - 1) / 2) * width,
            [uses.get(v, 0.0) for v in verbs],
            width,
            color=COLOURS[number],
            hatch=_HATCHES[number],
            edgecolor="white",
            label=label,
        )
    axes.set_xticks(places, verbs, rotation=40, ha="right")
    axes.grid(visible=False, axis="x")
    axes.set_axisbelow(True)
    axes.set_ylabel("uses per instruction")
    axes.legend(frameon=False)
    save_figure(figure, path)


def common_verbs(frequencies: Mapping[str, Mapping[str, float]], most: int) -> list[str]:
    """The verbs with the largest sums over all sets, largest first."""
    sums: dict[str, float] = {}
    for uses in frequencies.values():
        for verb, value in uses.items():
            sums[verb] = sums.get(verb, 0.0) + value
    return sorted(sums, key=lambda verb: (-sums[verb], verb))[:most]


def _examples_text(spoken: Mapping[str, Sequence[Spoken]]) -> str:
    """Some paths at even distances, of unseen houses if there are any."""
    split = max(spoken, key=VALIDATION.index)
    own = spoken[split]
    chosen = [own[i * len(own) // EXAMPLES] for i in range(min(EXAMPLES, len(own)))]
    lines = [f"Examples ({SPLIT_NAMES[split]}):\n"]
    for s in chosen:
        human = in_markdown(" ".join(s.references[0].split())) if s.references else "-"
        generated = in_markdown(" ".join(s.instruction.split())) or "-"
        lines.append(
            f"- path {in_markdown(str(s.path_id))}\n  - human: {human}\n  - generated: {generated}"
        )
    return "\n".join(lines) + "\n"
