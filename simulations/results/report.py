"""`fedsuite report RUN... -o FILE`: what runs came to, as a page, tables or figures; without -o in the terminal.

Runs are named by path or by name inside runs/: a run, an experiment, a variant of one, or a folder of any of them.
Runs of several systems are a part each.
"""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsuite.errors import InputError
from fedsuite.history import HISTORY, TIMINGS, read_rows, run_folders
from fedsuite.history.experiments import folder_of, place_of
from fedsuite.runs.folder import RunFolder, read_stored_config
from simulations.commands.options import check_used
from simulations.systems import load_system

if TYPE_CHECKING:
    from fedsuite.history import Run
    from fedsuite.reports.page.digest import Digest, Place
    from fedsuite.reports.page.model import Report

MOST_NAMED = 3  # that the title names


def add_to(app: typer.Typer) -> None:
    app.command()(report)


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs or experiments (paths or names).")
    ],
    out: Annotated[
        list[str] | None,
        typer.Option(
            "--out", "-o", metavar="FILE",
            help="Write .html (a page for itself), .md, .tex (tables), .pdf (figures) or FOLDER/ (all figures, Markdown, "
            "LaTeX); card.md is a model card of one run; repeat for more. Without: tables in the terminal.",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write over files that are there.")
    ] = False,
) -> None:  # fmt: skip
    """Report on runs: scores, curves, clients, privacy, settings, and the paper's numbers."""
    from fedsuite.reports.page.formats.table import check_free, format_of
    from fedsuite.reports.page.formats.terminal import print_report

    check_used("--overwrite", overwrite, "--out", out)
    writers = {name: format_of(name) for name in out or []}
    for name in writers:
        check_free(name, overwrite)
    made = make_report(runs)
    for name, write in writers.items():
        write(made, Path(name))
        print(f"written: {name}")
    if not writers:
        print_report(made)


def make_report(runs: list[str]) -> "Report":
    """A report of all runs that these names stand for, each once."""
    from fedsuite.reports.page.build import report_of
    from fedsuite.reports.page.digest import digest_of, read_ahead
    from fedsuite.settings.config import read_config, to_flat
    from fedsuite.storage.escaping import PlainConsole, redraws

    places = places_of(runs)
    systems: dict[str, tuple[list[Digest], dict[str, Any]]] = {}
    console = PlainConsole(stderr=True)
    status = console.status("")
    with status if redraws(console) else nullcontext():
        for number, (place, run) in enumerate(read_ahead(places), 1):
            status.update(f"reading run {number} of {len(places)}")
            stored = read_stored_config(RunFolder(place.folder))
            system = load_system(str(stored.get("system", "")))
            config = read_config(system.config_class, stored, str(place.folder / "config.json"))
            _check_whole(place, run)
            own = systems.setdefault(system.name, ([], to_flat(system.config_class())))
            own[0].append(digest_of(place, run, config, system.answers))
            del run
    return report_of(_title(runs, places), systems)


def _ended_without_a_word(folder: Path) -> bool:
    """Whether a run's last step had no metrics, so that the history has no line of it: its times say so."""
    file = folder / TIMINGS
    rows = read_rows(file, torn_end=True) if file.is_file() else []
    return any(row["kind"] == "closing" and row.get("metrics") == {} for row in rows)


def _check_whole(place: "Place", run: "Run") -> None:
    """InputError where a completed run's history lacks lines: rounds between others, the first ones, or the end."""
    rounds = run.rounds["round"].tolist() if len(run.rounds) else []
    begun = bool(rounds) and rounds[0] <= 1
    whole = begun and rounds == [*range(rounds[0], rounds[0] + len(rounds))]
    ended = len(run.closing) or _ended_without_a_word(place.folder)
    if place.status == "completed" and not (whole and ended):
        last = f"ends in round {rounds[-1]}" if rounds else "has no round"
        raise InputError(
            f"{place.folder / HISTORY}: the run is completed, but this lacks rounds or its last lines ({last}); it was cut, "
            "put it back from a copy, or leave the run out"
        )


def _title(names: list[str], places: "list[Place]") -> str:
    """The one run, or what was asked for."""
    if len(places) == 1:
        (place,) = places
        own = place.folder == place.experiment
        return place.label if own else f"{place.experiment.name}/{place.label}"
    named = list(dict.fromkeys(Path(name).resolve().name for name in names))
    return ", ".join(named) if len(named) <= MOST_NAMED else f"{len(named)} runs and experiments"


def places_of(names: list[str]) -> "list[Place]":
    """All runs that are meant, in order, each once; those of several experiments are called after theirs too."""
    from fedsuite.reports.page.digest import Place

    found: dict[Path, Place] = {}
    for name in names:
        for place in _places(name):
            found.setdefault(place.folder.resolve(), place)
    experiments = dict.fromkeys(place.experiment for place in found.values())
    if len(experiments) == 1:
        return list(found.values())
    often = Counter(folder.name for folder in experiments)
    called = {f: f.name if often[f.name] == 1 else f"{f.parent.name}/{f.name}" for f in experiments}

    def placed(place: Place) -> Place:
        own, name = place.experiment, called[place.experiment]
        if place.folder == own:
            return replace(place, label=name, line=name)
        line = name if place.line == own.name else f"{name}/{place.line}"
        return replace(place, label=f"{name}/{place.label}", line=line)

    return [placed(place) for place in found.values()]


def _places(name: str) -> "list[Place]":
    path = folder_of(Path(name).expanduser()).absolute()
    if not path.is_dir():
        raise InputError(f"{name}: no run, and no folder of runs; `fedsuite runs` lists the runs")
    return [_place(folder) for folder in run_folders(path)]


def _place(folder: Path) -> "Place":
    """Label and line of a run, which may be one of an experiment's."""
    from fedsuite.reports.outcomes import line_name
    from fedsuite.reports.page.digest import Place
    from simulations.experiments.result_tables import status_of

    found, status = place_of(folder), status_of(RunFolder(folder))
    if not found.label:
        return Place(folder, folder.name, folder.name, folder, status)
    return Place(folder, found.label, line_name(found.root, found.label), found.root, status)
