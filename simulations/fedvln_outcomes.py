"""The numbers by which a finished FedVLN run is reported: which round is its result, and what it scored there.

A run's result is the agent (or speaker) of its last round or, with `selection`, of the round that was best on a
validation split; the closing row names that round. Scores are those that the round was given in the course of training.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedsuite.errors import InputError
from fedsuite.history import RunFrames, load_runs
from fedsuite.report.tables import mean_and_spread
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.disclosure import LEVELS, privacy_level
from fedsuite.vln.wire import VALIDATION

SPEAKER_STAGE, PRE_EXPLORE = "speaker", "pre-explore"
SPLIT_NAMES = {"val_seen": "val-seen", "val_unseen": "val-unseen"}
TITLES = {
    "ne": "NE (m)", "osr": "OSR", "spl": "SPL", "sr": "SR",
    "cls": "CLS", "ndtw": "nDTW", "sdtw": "SDTW", "tl": "TL (m)",
    "bleu-1": "BLEU-1", "bleu-2": "BLEU-2", "bleu-3": "BLEU-3", "bleu-4": "BLEU-4",
    "bleu-4-published": "BLEU-4, published", "xe-loss": "cross-entropy", "word-accuracy": "word accuracy",
}  # fmt: skip
PERCENT = frozenset(("osr", "spl", "sr", "cls", "ndtw", "sdtw", "word-accuracy"))
AGENT_COLUMNS = ("ne", "osr", "spl", "sr", "cls", "ndtw", "sdtw", "tl")
SPEAKER_COLUMNS = tuple(t for t in TITLES if t not in AGENT_COLUMNS)
BYTES_PER_MB = 1e6


@dataclass(frozen=True)
class Outcome:
    """What one run ended with. Scores are named `<split>.<metric>`.

    before: scores of round 0, {} if it has none; scores: those of the result; selected: its round; local_steps: made up
    to that round by all clients together; modules_sent: most modules that reached the server in any round;
    upload_mb: mean over clients and rounds. Numbers that a run's stage or method does not measure are None.
    """

    config: FedVLNConfig
    frames: RunFrames
    before: Mapping[str, float]
    scores: Mapping[str, float]
    selected: int
    local_steps: int
    modules_sent: float | None
    houses_per_client: float | None
    upload_mb: float | None

    @property
    def privacy(self) -> int | None:
        """Level of disclosure; None if the run says nothing about it."""
        if self.modules_sent is None or self.houses_per_client is None:
            return None
        return privacy_level(self.modules_sent, self.houses_per_client)

    @property
    def splits(self) -> list[str]:
        """Validation splits that were scored."""
        return [s for s in VALIDATION if f"{s}.{headline(self.config.stage)}" in self.scores]


def headline(stage: str) -> str:
    """The metric that a stage's learning curves show."""
    return "bleu-2" if stage == SPEAKER_STAGE else "sr"


def outcome_of(config: FedVLNConfig, run_dir: Path) -> Outcome:
    """Read a completed run; InputError if its history lacks what its settings promise."""
    frames = load_runs(run_dir)
    evaluated = _evaluations(pd.concat([frames.rounds, frames.closing]), config.stage)
    if not evaluated:
        raise InputError(
            f"{run_dir}: no round was evaluated on a validation split; use data that has validation instructions"
        )
    chosen = evaluated[-1]
    if config.selection != "last":
        chosen = _selected(evaluated, frames.closing, run_dir)
    selected = int(chosen["round"])
    first = evaluated[0] if evaluated[0]["round"] == 0 else {}
    return Outcome(
        config,
        frames,
        before=_scores(first),
        scores=_scores(chosen),
        selected=selected,
        local_steps=int(_latest(frames.rounds, "local-steps", selected) or 0),
        modules_sent=_most(frames.rounds, "modules-sent"),
        houses_per_client=_most(frames.rounds, "houses-per-client"),
        upload_mb=_upload_mb(frames.clients),
    )


def _evaluations(rows: pd.DataFrame, stage: str) -> list[dict[str, float]]:
    """Rows with a headline score, without what they lack (NaN), in order."""
    names = [f"{split}.{headline(stage)}" for split in VALIDATION]
    plain = [{str(k): v for k, v in row.items() if pd.notna(v)} for row in rows.to_dict("records")]
    return [row for row in plain if any(name in row for name in names)]


def _selected(
    evaluated: Sequence[dict[str, float]], closing: pd.DataFrame, run_dir: Path
) -> dict[str, float]:
    number = closing["selected-round"].dropna().max() if "selected-round" in closing else None
    found = [row for row in evaluated if row["round"] == number]
    if not found:
        raise InputError(
            f"{run_dir}: expected an evaluated round that the closing row names as selected-round, got {number}; "
            "run it again"
        )
    return found[0]


def _scores(row: Mapping[str, float]) -> dict[str, float]:
    return {k: float(v) for k, v in row.items() if k.startswith(tuple(f"{s}." for s in VALIDATION))}


def _latest(rounds: pd.DataFrame, metric: str, number: int) -> float | None:
    """The last value up to a round."""
    if metric not in rounds:
        return None
    known = rounds.loc[rounds["round"] <= number, metric].dropna()
    return float(known.iloc[-1]) if len(known) else None


def _most(rounds: pd.DataFrame, metric: str) -> float | None:
    """Largest value of the rounds that train."""
    if metric not in rounds:
        return None
    known = rounds.loc[rounds["round"] > 0, metric].dropna()
    return float(known.max()) if len(known) else None


def _upload_mb(clients: pd.DataFrame) -> float | None:
    if clients.empty:
        return None
    used = (clients["task"] == "train") & (clients["round"] > 0) & (clients["status"] == "ok")
    return float(clients.loc[used, "bytes-up"].mean()) / BYTES_PER_MB if used.any() else None


def selection_text(selection: str, rounds: Sequence[int]) -> str:
    """How the shown rounds (one per run) came to be chosen."""
    which = ", ".join(map(str, sorted(set(rounds))))
    named = f"round{'s' * (len(set(rounds)) > 1)} {which}"
    if selection == "last":
        return f"last round ({named})"
    if selection == "best-val-seen":
        return f"best on val-seen ({named})"
    return f"best on val-unseen ({named}; the published protocol: chosen on what is reported)"


def score_cells(
    runs: Sequence[Mapping[str, float]], split: str, columns: Sequence[str]
) -> dict[str, str]:
    """Cells of a table: shares in percent, mean and spread if there are several runs, "-" if none has the score."""
    return {
        TITLES[c]: mean_and_spread(s[f"{split}.{c}"] for s in runs if f"{split}.{c}" in s).text(
            2, 100 if c in PERCENT else 1
        )
        for c in columns
    }


def privacy_text() -> str:
    """What the levels mean, in one line."""
    return "Privacy: " + ", ".join(f"{level} {words}" for level, words in LEVELS.items()) + "."
