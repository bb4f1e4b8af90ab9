"""What a finished run of a FedVLN speaker leaves beside its history.

<run>/results.md      BLEU of the resulting speaker (Zhou & Wang 2022, Table 4), statistics of its instructions beside the
                      human ones (Table 1), and some examples
<run>/statistics.csv  the same statistics
<run>/verbs.png       uses of verbs (Figure 4)
<run>/learning.png    BLEU-2 over rounds in seen and unseen houses

What the speaker said is read from what the houses keep, clients/<house>/spoken_<split>.json; where houses live
elsewhere there is nothing to read, and results.md says so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from fedsuite.errors import InputError
from fedsuite.report.instructions import verbs_plot
from fedsuite.report.tables import markdown_table, mean_and_spread
from fedsuite.run_folder import RunFolder
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.statistics import (
    InstructionStatistics,
    instruction_statistics,
    verb_frequencies,
)
from fedsuite.vln.wire import VALIDATION
from simulations.fedvln_closing import draw_learning
from simulations.fedvln_outcomes import (
    SPEAKER_COLUMNS,
    SPLIT_NAMES,
    Outcome,
    outcome_of,
    score_cells,
    selection_text,
)

EXAMPLES = 3
BLEU_NOTE = (
    "BLEU of a corpus, 0 to 100, against all human instructions of a path. Zhou & Wang (2022, Table 4) name their score "
    "BLEU-2, but values of its size (30 to 34) are usual for BLEU-4; `BLEU-4, published` counts as the official "
    "release does. Cross-entropy and word accuracy are those of the next human word.\n"
)
STATISTICS_NOTE = (
    "Length in tokens with punctuation; variances are population variances; trigram variety: share of distinct "
    "trigrams among 1,000 consecutive ones.\n"
)
NOTHING_SPOKEN = (
    "No instructions to show: the houses keep theirs elsewhere (no clients/*/spoken_*.json here).\n"
)
STATISTIC_TITLES = {
    "count": "texts", "length": "length", "length_variance": "Var(length)", "sentences": "sentences",
    "sentences_variance": "Var(sentences)", "vocabulary": "distinct words", "trigram_variety": "trigram variety",
}  # fmt: skip
_WHOLE = frozenset(("count", "vocabulary"))


@dataclass(frozen=True)
class Spoken:
    """One path: what the speaker said of it, and what humans did."""

    path_id: int
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
    """Human and generated texts of one split. Human ones come first by first of every path, then by second, and so on:

    neighbours then tell of different paths, as the generated ones do, which the measure of variety asks for.
    """
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


def statistic_cells(runs: Sequence[InstructionStatistics]) -> dict[str, str]:
    """Cells of a table; mean and spread if there are several runs."""
    return {
        title: mean_and_spread(float(getattr(s, name)) for s in runs).text(
            0 if name in _WHOLE else 2
        )
        for name, title in STATISTIC_TITLES.items()
    }


def write_speaker_closing(config: FedVLNConfig, run_dir: Path) -> None:
    """Tables and plots of a speaker that has just been trained."""
    outcome, spoken = outcome_of(config, run_dir), read_spoken(run_dir)
    parts = [bleu_text(outcome)]
    if spoken:
        statistics = statistics_of(spoken)
        _write_csv(statistics, run_dir / "statistics.csv")
        verbs = _draw_verbs(spoken, run_dir / "verbs.png")
        parts += [_statistics_text(statistics), verbs, _examples_text(spoken)]
    else:
        parts.append(NOTHING_SPOKEN)
    RunFolder(run_dir).results.write_text("\n".join(p for p in parts if p), encoding="utf-8")
    draw_learning(outcome, run_dir / "learning.png")


def bleu_text(outcome: Outcome) -> str:
    """The table of scores, before training and after."""
    rows = []
    for split in outcome.splits:
        if outcome.before and outcome.selected:
            cells = score_cells([outcome.before], split, SPEAKER_COLUMNS)
            rows.append({"speaker": f"{split}, untrained"} | cells)
        cells = score_cells([outcome.scores], split, SPEAKER_COLUMNS)
        rows.append({"speaker": f"{split}, {outcome.config.method}"} | cells)
    chosen = selection_text(outcome.config.selection, [outcome.selected])
    shown = f"Scores shown: {chosen}; {outcome.local_steps:,} local steps."
    return f"{markdown_table(rows)}\n{shown} {BLEU_NOTE}"


def _statistics_text(statistics: Mapping[tuple[str, str], InstructionStatistics]) -> str:
    rows = [
        {"instructions": f"{SPLIT_NAMES[split]}, {source}"} | statistic_cells([own])
        for (split, source), own in statistics.items()
    ]
    return f"{markdown_table(rows)}\n{STATISTICS_NOTE}"


def _write_csv(statistics: Mapping[tuple[str, str], InstructionStatistics], path: Path) -> None:
    rows = [
        {"split": split, "instructions": source, **asdict(own)}
        for (split, source), own in statistics.items()
    ]
    pd.DataFrame(rows).to_csv(path, index=False)


def _draw_verbs(spoken: Mapping[str, Sequence[Spoken]], path: Path) -> str:
    """Bars of all splits together; says so where there is nothing to draw."""
    texts = texts_of([s for own in spoken.values() for s in own])
    uses = {source: verb_frequencies(own) for source, own in texts.items()}
    if not any(uses.values()):
        return "No verbs.png: none of the known (English) verbs is used.\n"
    verbs_plot(uses, path)
    return ""


def _examples_text(spoken: Mapping[str, Sequence[Spoken]]) -> str:
    """Some paths at even distances, of unseen houses if there are any."""
    split = max(spoken, key=VALIDATION.index)
    own = spoken[split]
    chosen = [own[i * len(own) // EXAMPLES] for i in range(min(EXAMPLES, len(own)))]
    lines = [f"Examples ({SPLIT_NAMES[split]}):\n"]
    for s in chosen:
        human = _one_line(s.references[0]) if s.references else "-"
        lines.append(
            f"- path {s.path_id}\n  - human: {human}\n  - generated: {_one_line(s.instruction) or '-'}"
        )
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())
