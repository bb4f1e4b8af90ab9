"""What an attack on a run found: one row of its audit.

An attack is tried as it is on the run (`value`), and beside it where it must succeed (`control`): a failure of an attack
that fails everywhere shows nothing. `chance` is what a guesser reaches who sees nothing of the run.
"""

import csv
import dataclasses
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable, write_atomically

AUDIT = "audit.csv"  # in a run's folder
AT_LEAST = "epsilon at least"  # the measure of a lower bound of epsilon
CURE = "put it back from a copy, or make it anew with fedsuite audit --overwrite"


@dataclass(frozen=True)
class Finding:
    """One number that one attack reached on one run.

    attack: its name, such as "words"; attacker: who is in a position for it, "server", "neighbour", "party" or "anybody with
    the model"; target: what it is after, in words; measure: what the numbers are, such as "precision" or "TPR at 1 % FPR".
    value, low, high: what was reached, with its 95 % interval (equal where there is none); control: what the same attack
    reached where it must succeed, and least: what the control has to reach there for the finding to count; chance: a
    guesser's. n: what the value is a share or a mean of. note: what a reader has to know beside it. undefended: what the
    attack reaches on the same run without the defences that it has. epsilon: what the run's ledger accounts for what is
    attacked; unit: of whom, such as "example" or "client".
    """

    attack: str
    attacker: str
    target: str
    measure: str
    value: float
    chance: float
    control: float
    least: float
    n: int
    low: float = float("nan")
    high: float = float("nan")
    note: str = ""
    undefended: float = float("nan")
    epsilon: float = float("nan")
    unit: str = ""

    @property
    def counts(self) -> bool:
        """Whether the control succeeded: no defence counts while it fails."""
        return self.control >= self.least

    @property
    def refutes(self) -> bool:
        """Whether a lower bound of epsilon is above what is accounted: then the accounting, or the noise, is wrong."""
        return self.measure == AT_LEAST and self.value > self.epsilon


@dataclass(frozen=True)
class Row:
    """A finding as an audit keeps it. seed: of the attack; round: after which the attacked model stands; quick: with fewer
    shadows and visits; changed: settings of the attack other than the defaults, "words.houses=2"."""

    finding: Finding
    seed: int
    round: int
    quick: bool
    changed: str = ""


_HEAD = ("seed", "round", "quick", "changed")
COLUMNS = (*_HEAD, *(field.name for field in dataclasses.fields(Finding)))


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """A line per row, whole or not at all; numbers are written so that they are read back as they were."""
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({**{k: getattr(row, k) for k in _HEAD}, **dataclasses.asdict(row.finding)})
    write_atomically(file, text.getvalue().encode())


def read_rows(file: Path) -> list[Row]:
    """InputError for a file that is no audit."""
    check_readable(file)
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            table = csv.DictReader(opened)
            if tuple(table.fieldnames or ()) != COLUMNS:
                raise ValueError(f"its columns are {table.fieldnames}")
            return [_row(line) for line in table]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: not the findings of an audit ({error}); {CURE}") from None


def _row(line: Mapping[str, str]) -> Row:
    kinds = {field.name: field.type for field in dataclasses.fields(Finding)}
    values: dict[str, Any] = {k: _value(line[k], kind) for k, kind in kinds.items()}
    head = int(line["seed"]), int(line["round"]), line["quick"] == "True", line["changed"]
    return Row(Finding(**values), *head)


def _value(text: str, kind: object) -> object:
    return kind(text) if kind in (int, float) else text
