"""The comparison of an experiment's runs where the system has none of its own: a table of the last metrics."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsuite.history import load_run, load_runs
from fedsuite.history.metrics import metrics_of
from fedsuite.history.tidy import last_values
from fedsuite.reports.outcomes import SEEDS, Outcome, grouped, line_name, table
from fedsuite.reports.page.digest import Place, digest_of
from fedsuite.reports.page.questions import plain_columns
from fedsuite.reports.page.results import differences_text
from fedsuite.reports.tables import markdown_table
from fedsuite.runs.folder import RunFolder, variant_of
from fedsuite.settings.config import RunSettings
from fedsuite.settings.metrics import NO_ROWS
from fedsuite.storage.escaping import in_markdown
from simulations.systems import System


def write_comparison(folder: Path, labels: Sequence[str]) -> None:
    """<folder>/results.md: one line per variant, each metric's last value; mean and deviation over seeds."""
    outcomes = []
    for label in labels:
        frames = load_runs(folder / label)
        values = last_values(frames.rounds, frames.closing)
        outcomes.append(Outcome(line_name(folder, label), label, {}, values, frames))
    metrics = list(dict.fromkeys(name for o in outcomes for name in o.metrics))
    own = metrics_of(folder / labels[0]) if labels else NO_ROWS
    columns = [SEEDS, *plain_columns(own, metrics)]
    rows = table(grouped(outcomes), columns, "variant")
    RunFolder(folder).results.write_text(markdown_table(rows), encoding="utf-8")


def add_differences(folder: Path, system: System[Any], runs: Mapping[str, RunSettings]) -> None:
    """Tables of <folder>/results.md: by how much lines differ, and whether that is certain.

    runs: label -> settings of a completed run at <folder>/<label>.
    """
    digests = []
    for label, settings in runs.items():
        place = Place(folder / label, label, line_name(folder, label), folder, "completed")
        digests.append(digest_of(place, load_run(place.folder), settings, system.answers))
    with RunFolder(folder).results.open("a", encoding="utf-8") as file:
        file.write(differences_text(digests))


def add_rounds(folder: Path, rounds: Mapping[str, int]) -> None:
    """A line of <folder>/results.md where runs have different numbers of rounds; those that never train are passed over.

    rounds: label -> num-rounds.
    """
    trained = {label: number for label, number in rounds.items() if number}
    if len(set(trained.values())) < 2:
        return
    every = {
        v: {n for k, n in trained.items() if variant_of(k) == v} for v in map(variant_of, trained)
    }
    names: dict[int, dict[str, None]] = {}
    for label, number in trained.items():
        variant = variant_of(label)
        names.setdefault(number, {})[variant if len(every[variant]) == 1 else label] = None
    said = "; ".join(f"{number}: {', '.join(names[number])}" for number in sorted(names))
    with RunFolder(folder).results.open("a", encoding="utf-8") as file:
        file.write(f"\nThe runs have different numbers of rounds. {in_markdown(said)}.\n")
