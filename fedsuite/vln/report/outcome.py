"""The numbers by which a finished FedVLN run is reported: which round is its result, and what it scored there.

A run's result is the agent (or speaker) of its last round or, with `selection`, of the round that was best on a
validation split; the final row names that round. Scores are those that the round was given in the course of training.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedsuite.errors import InputError
from fedsuite.history import RunFrames, load_runs
from fedsuite.history.tidy import last_values
from fedsuite.reports.outcomes import EMPTY, Column, Outcome, column_of
from fedsuite.settings.metrics import Metric
from fedsuite.storage.files import read_table
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.message_keys import MODULES, VALIDATION
from fedsuite.vln.metrics import metrics_of

PRE_EXPLORE = "pre-explore"
UNSEEN = "val_unseen"
TEXTS = read_table(__file__, "texts.json")
SPLIT_NAMES: Mapping[str, str] = TEXTS["splits"]
BYTES_PER_MB = 1e6
WORK = (
    Column("local steps", "local-steps", 0, with_spread=False),
    Column("serial depth", "serial-depth", 0, with_spread=False),
)


@dataclass(frozen=True)
class FedVLNOutcome(Outcome):
    """Metrics: scores of the result, `<split>.<metric>`, and those of round 0, `before.<split>.<metric>`, if it has any.

    selected-round: of the result; up to it, local-steps: of all clients together, serial-depth: how many had to wait for
    one another; modules-sent: most modules that reached the server in any round; upload-mb: mean over clients and rounds;
    privacy: level of disclosure.
    """

    config: FedVLNConfig

    @property
    def splits(self) -> list[str]:
        """Validation splits that were scored."""
        return [s for s in VALIDATION if f"{s}.{headline(self.config).name}" in self.metrics]

    @property
    def before(self) -> dict[str, float]:
        start = "before."
        return {k.removeprefix(start): v for k, v in self.metrics.items() if k.startswith(start)}

    @property
    def selected(self) -> int:
        return int(self.metrics["selected-round"])


def headline(config: FedVLNConfig) -> Metric:
    """The metric that a stage's learning curves show."""
    return metrics_of(config).curves[0]


def outcome_of(
    config: FedVLNConfig,
    run_dir: Path,
    name: str = "",
    run: str = "",
    frames: RunFrames | None = None,
) -> FedVLNOutcome:
    """Read a completed run, unless its frames are at hand; InputError if its history lacks what its settings promise."""
    frames = frames or load_runs(run_dir)
    evaluated = _evaluations(pd.concat([frames.rounds, frames.closing]), headline(config))
    if not evaluated:
        raise InputError(
            f"{run_dir}: no round was evaluated on a validation split; use data that has validation instructions"
        )
    chosen = evaluated[-1]
    if config.evaluation.selection != "last":
        chosen = _selected(evaluated, frames.closing, run_dir)
    selected = int(chosen["round"])
    first = evaluated[0] if evaluated[0]["round"] == 0 else {}
    rounds = frames.rounds
    so_far = last_values(rounds[rounds["round"] <= selected])
    disclosed = ["modules-sent", "houses-per-client"]
    modules, houses = rounds[rounds["round"] > 0].reindex(columns=disclosed).max()
    facts = {
        "seed": config.seed,
        "stage": config.stage,
        "method": config.federation.method,
        "selection": config.evaluation.selection,
    }
    metrics: dict[str, float] = {
        "selected-round": selected,
        "local-steps": int(so_far.get("local-steps", 0)),
        "serial-depth": int(so_far.get("serial-depth", 0)),
        "modules-sent": modules,
        "houses-per-client": houses,
        "upload-mb": _upload_mb(frames.clients),
        "privacy": privacy_level(modules, houses) if modules + houses >= 0 else math.nan,
        **_scores(chosen),
        **{f"before.{k}": v for k, v in _scores(first).items()},
    }
    return FedVLNOutcome(name, run, facts, metrics, frames, config)


def _evaluations(rows: pd.DataFrame, score: Metric) -> list[dict[str, float]]:
    """Rows with a headline score, without what they lack (NaN), in order."""
    names = [f"{split}.{score.name}" for split in VALIDATION]
    known = [name for name in names if name in rows]
    rows = rows.dropna(subset=known, how="all") if known else rows[:0]
    plain = [{str(k): v for k, v in row.items() if pd.notna(v)} for row in rows.to_dict("records")]
    return plain


def _selected(
    evaluated: Sequence[dict[str, float]], final: pd.DataFrame, run_dir: Path
) -> dict[str, float]:
    number = final["selected-round"].dropna().max() if "selected-round" in final else None
    found = [row for row in evaluated if row["round"] == number]
    if not found:
        raise InputError(
            f"{run_dir}: expected an evaluated round that the final row names as selected-round, got {number}; "
            "run it again"
        )
    return found[0]


def _scores(row: Mapping[str, float]) -> dict[str, float]:
    return {k: float(v) for k, v in row.items() if k.startswith(tuple(f"{s}." for s in VALIDATION))}


def _upload_mb(clients: pd.DataFrame) -> float:
    if clients.empty:
        return math.nan
    used = (clients["task"] == "train") & (clients["round"] > 0) & (clients["status"] == "ok")
    return float(clients.loc[used, "bytes-up"].mean()) / BYTES_PER_MB


def privacy_level(modules_sent: float, houses_per_client: float) -> int:
    """The privacy column of Zhou & Wang 2022, Table 6, from what a run has measured: higher where less is disclosed.

    modules_sent: how many of an agent's modules reached the server in a round, at most.
    """
    if not 0 <= modules_sent <= len(MODULES) or not houses_per_client >= 1:
        raise InputError(
            f"privacy level: expected 0 to {len(MODULES)} modules sent and at least 1 house per client, got "
            f"{modules_sent} and {houses_per_client}; run the experiment again"
        )
    if houses_per_client > 1:
        return 0
    if modules_sent == 0:
        return 3
    return 1 if modules_sent == len(MODULES) else 2


def selection_text(selection: str, rounds: Sequence[int]) -> str:
    """How the shown rounds (one per run) came to be chosen."""
    which = ", ".join(map(str, sorted(set(rounds))))
    named = f"round{'s' * (len(set(rounds)) > 1)} {which}"
    return str(TEXTS["selections"][selection].format(named))


def score_columns(split: str, rows: Sequence[Metric]) -> list[Column]:
    """Columns of scores on a split, shares in percent."""
    return [column_of(row, f"{split}.{row.name}", row.heading) for row in rows]


def _privacy_levels(outcomes: Sequence[Outcome]) -> str:
    levels = {o.metrics.get("privacy", math.nan) for o in outcomes}
    return "/".join(f"{level:.0f}" for level in sorted(v for v in levels if v >= 0)) or EMPTY


PRIVACY = Column("privacy", text=_privacy_levels)


def privacy_text() -> str:
    """What the levels mean, in one line."""
    levels = enumerate(TEXTS["privacy"])
    return "Privacy: " + ", ".join(f"{level} {words}" for level, words in levels) + "."
