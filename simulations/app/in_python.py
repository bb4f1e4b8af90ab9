"""`from fedsuite import run, report`: a configuration, played in the caller's process, as data frames, and a report on runs.

from fedsuite import report, run
frames = run("fedvln/quickstart", seed=1, **{"federation.participation-rate": 0.5})
report(frames, "page.html")
"""

from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import TypeVar

from fedsuite.errors import InputError
from fedsuite.history import Run, Runs, load_run, load_runs
from fedsuite.reports.page.formats.html import as_html
from fedsuite.reports.page.formats.table import check_free, format_of
from fedsuite.reports.page.model import Report
from fedsuite.settings.values import Value, shown
from fedsuite.storage.escaping import PlainConsole
from simulations.app.in_turn import in_turn
from simulations.engines.ray.placement import Resources
from simulations.experiments.launching import way_of
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from simulations.experiments.running import run_experiment
from simulations.results.report import make_report

T = TypeVar("T")


class ShownReport(Report):
    """A report that a notebook shows as a page, in a frame so that its styles stay its own."""

    def _repr_html_(self) -> str:
        page = escape(as_html(self))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 45em; border: 0"></iframe>'


def run(
    config: str | Path = "",
    *,
    name: str = "",
    results_dir: str | Path = "",
    resume: str | Path = "",
    overwrite: bool = False,
    only: str | Sequence[str] = (),
    seeds: Sequence[int] = (),
    quiet: bool = False,
    **keys: Value,
) -> Run | Runs:
    """Play a configuration to its end; its run with the frames of its history, or all its runs where it describes several.

    config: a TOML, or a name that `fedsuite configs` lists; "" with `resume` alone. only: one variant or several.
    keys: what --set takes, "-" or "_": seed=1, num_rounds=2, **{"federation.participation-rate": 0.5}. The others are the
    options of `fedsuite run`. A bar, or lines where there is no terminal, says how far it is, unless quiet. Threads take
    turns. InputError before anything starts, RunFailed for a run that failed. KeyboardInterrupt leaves what `resume` goes
    on from.
    """
    _check("config", config, (str, Path), "the path or name of a configuration")
    _check("overwrite", overwrite, (bool,), "True or False")
    _check("quiet", quiet, (bool,), "True or False")
    variants = [only] if isinstance(only, str) else _listed("only", only, str, "names of variants")
    numbers = _listed("seeds", seeds, int, "whole numbers, such as [0, 1]")
    changes = {key.replace("_", "-"): value for key, value in keys.items()}
    if len(changes) < len(keys):
        raise InputError("run: a key is given twice, with - and with _; leave one of them out")
    placed = {"name": str(name), "results-dir": str(results_dir)}
    changes |= {key: value for key, value in placed.items() if value}
    request = Request(
        Path(config) if str(config) else None,
        [f"{key}={_as_text(key, value)}" for key, value in changes.items()],
        resume=str(resume),
        overwrite=overwrite,
        only=variants,
        seeds=",".join(map(str, numbers)) if numbers else None,
    )
    console = PlainConsole(quiet=quiet)
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    way = way_of("inprocess", "inprocess", Resources(), "")
    with in_turn(say):
        experiment = plan_experiment(request)
        try:
            experiment = run_experiment(experiment, way, console)
        except KeyboardInterrupt as stopped:
            say(str(stopped))
            raise
    folders = [experiment.plans[label].folder.path for label in experiment.chosen]
    return load_run(folders[0]) if experiment.record is None else load_runs(folders)


def report(
    runs: str | Path | Run | Runs | Sequence[str | Path | Run],
    out: str | Path | Sequence[str | Path] = (),
    *,
    overwrite: bool = False,
) -> "ShownReport":
    """A report on runs, as `fedsuite report` makes it; a notebook shows it as a page.

    runs: what `run`, `load_run` or `load_runs` returned, or paths or names of runs, experiments, folders of either.
    out: files to write it to, by their endings (.html, .md, .tex, .pdf, or a folder, with "/" at its end). InputError for
    what is no run, and for files that are there already, unless overwrite.
    """
    several = runs.runs if isinstance(runs, Runs) else runs
    given = [several] if isinstance(several, str | Path | Run) else list(several)
    files = [str(f) for f in ([out] if isinstance(out, str | Path) else out)]
    writers = {name: format_of(name) for name in files}
    for name in writers:
        check_free(name, overwrite)
    made = make_report([str(r.folder if isinstance(r, Run) else r) for r in given])
    for name, write in writers.items():
        write(made, Path(name))
    return ShownReport(made.title, made.answer, made.parts)


def _check(name: str, value: object, kinds: tuple[type, ...], what: str) -> None:
    if not isinstance(value, kinds):
        raise InputError(f"run: {name} must be {what}, got {value!r}")


def _listed(name: str, values: Iterable[T], kind: type[T], what: str) -> list[T]:
    wrong = isinstance(values, str | bytes) or not isinstance(values, Iterable)
    found = [] if wrong else list(values)
    if wrong or not all(isinstance(v, kind) and not isinstance(v, bool) for v in found):
        raise InputError(f"run: {name} must be a list of {what}, got {values!r}")
    return found


def _as_text(key: str, value: object) -> str:
    """A value as --set takes it."""
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, bool | int | float | str):
        raise InputError(
            f"{key}: expected text, a number, True or False, got {type(value).__name__}"
        )
    return value if isinstance(value, str) else shown(value)
