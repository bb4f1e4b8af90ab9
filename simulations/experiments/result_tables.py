"""Run folders as records (`--json`), and as tables for a terminal."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Column, Table

from fedsuite.errors import InputError, one_line
from fedsuite.history import HISTORY, read_rows, run_folders
from fedsuite.history.experiments import has_begun
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import to_flat
from fedsuite.storage.files import as_typed
from simulations.app.key_rows import KeyRow
from simulations.experiments.folders import is_experiment, labels_of, read_record
from simulations.experiments.progress import short_metrics
from simulations.systems import load_system

ROUNDS_ABREAST = 5  # what 80 columns hold
MOST_OF_ERROR = 100  # characters; `fedsuite show` has all
DAMAGED = "damaged"
UNFINISHED = "unfinished"  # trained, but its tables are not written, or not yet


def run_records(results_dir: Path) -> list[dict[str, Any]]:
    """What there is to say of every run: run, status, rounds, num-rounds, started, metrics (the latest), error."""
    records = []
    for name, folder in _listed(results_dir):
        try:
            records.append({"run": name, **_record_of(folder)})
        except InputError as error:
            records.append({"run": name, "status": DAMAGED, "error": one_line(str(error), 2000)})
    return records


def runs_table(results_dir: Path) -> tuple[Table, list[str]]:
    """One line per run, and a complaint about each that is damaged."""
    run = Column("run", no_wrap=True)
    table = Table(run, "status", "rounds", "started (UTC)", "latest metrics", box=None)
    complaints = []
    for record in run_records(results_dir):
        if record["status"] == DAMAGED:
            table.add_row(record["run"], DAMAGED)
            complaints.append(one_line(f"{record['run']}: {record['error']}", 2000))
            continue
        error = escape(one_line(record["error"], MOST_OF_ERROR))
        metrics = short_metrics(record["metrics"]) if record["metrics"] else error
        done, started = f"{record['rounds']}/{record['num-rounds']}", record["started"][:19]
        table.add_row(record["run"], record["status"], done, started.replace("T", " "), metrics)
    return table, complaints


def _record_of(folder: RunFolder) -> dict[str, Any]:
    """InputError if any of its files cannot be read."""
    if is_experiment(folder.path):
        read_record(folder.path)  # damaged, or its runs would be listed
    rounds = _rounds(folder)
    metrics = [m for _, m in rounds if m]
    status, wanted = folder.status(), read_stored_config(folder).get("num-rounds", "?")
    return {
        "status": status_of(folder),
        "rounds": rounds[-1][0] if rounds else 0,
        "num-rounds": wanted,
        "started": str(status.get("started", "")),
        "metrics": metrics[-1] if metrics else {},
        "error": str(status.get("error", "")),
    }


def run_record(run: str, last: int) -> dict[str, Any]:
    """Run, status, error, placement, versions here and at nodes, settings that are no defaults, metrics of last rounds."""
    folder = find_run(run)
    status, stored = folder.status(), read_stored_config(folder)
    error = str(status.get("error", ""))
    if not error and status_of(folder) == UNFINISHED:
        resume = f"fedsuite run --resume {as_typed(folder.path)}"
        error = f"no tables yet; write them with: {resume}"
    defaults = to_flat(load_system(str(stored.get("system", ""))).config_class())
    by_round: dict[int, dict[str, float]] = {}
    for number, metrics in _rounds(folder):  # the closing has the number of the last round
        by_round.setdefault(number, {}).update(metrics)
    return {
        "run": str(folder.path),
        "status": status_of(folder),
        "error": error,
        "placement": status.get("placement") or {},
        "versions": dict(sorted(status.get("versions", {}).items())),
        "nodes": status.get("nodes") or {},
        "settings": {k: v for k, v in sorted(stored.items()) if defaults.get(k) != v},
        "rounds": [{"round": n, "metrics": m} for n, m in by_round.items()][-last:],
    }


def run_tables(record: Mapping[str, Any]) -> list[Table]:
    """What `run_record` says."""
    head = Table("", Column("", overflow="fold"), show_header=False, box=None)
    for name in ("run", "status", "error"):
        if record[name]:
            head.add_row(name, record[name])
    if placement := record["placement"]:
        head.add_row("placement", ", ".join(f"{name} {value}" for name, value in placement.items()))
    for name, version in record["versions"].items():
        head.add_row(name, str(version))
    for name, told in record["nodes"].items():
        head.add_row(f"node {name}", ", ".join(f"{k} {v}" for k, v in told.items()))
    settings = Table("setting", Column("value", overflow="fold"), box=None)
    for key, value in record["settings"].items():
        settings.add_row(key, str(value))
    rounds = [(line["round"], line["metrics"]) for line in record["rounds"]]
    blocks = [rounds[at : at + ROUNDS_ABREAST] for at in range(0, len(rounds), ROUNDS_ABREAST)]
    return [head, settings, *map(_rounds_table, blocks)]


def _rounds_table(rounds: list[tuple[int, dict[str, float]]]) -> Table:
    """A line per metric, a column per round: metrics are many and their names long."""
    columns = (Column(str(number), justify="right", no_wrap=True) for number, _ in rounds)
    table = Table(Column("round", overflow="fold"), *columns, box=None)
    for name in dict.fromkeys(name for _, metrics in rounds for name in metrics):
        cells = (f"{metrics[name]:.4g}" if name in metrics else "" for _, metrics in rounds)
        table.add_row(name, *cells)
    return table


def status_of(folder: RunFolder) -> str:
    """The recorded status; "interrupted" if it says running but nobody is writing, UNFINISHED without all tables."""
    status = str(folder.status().get("status", "unknown"))
    if status == "completed" and not folder.is_completed():
        return UNFINISHED
    if status == "running" and not folder.is_being_written():
        return "interrupted"
    return status


def find_run(run: str) -> RunFolder:
    """A run given by path, or by name inside runs/."""
    for path in (Path(run), Path("runs") / run):
        if (path / HISTORY).is_file() or (path / "run.json").is_file():
            return RunFolder(path.absolute())
        if is_experiment(path):
            names = ", ".join(f"{run}/{label}" for label in labels_of(path))
            raise InputError(f"{run}: an experiment of several runs; show one of {names}")
    raise InputError(f"{run}: no such run; `fedsuite runs` lists the runs")


def _listed(results_dir: Path) -> list[tuple[str, RunFolder]]:
    """Name and folder of every begun run: single ones, and experiment/variant where there are several.

    An experiment whose record is damaged is listed itself.
    """
    found = []
    if is_experiment(results_dir):
        found = [(label, results_dir / label) for label in labels_of(results_dir)]
    elif results_dir.is_dir() and not (results_dir / HISTORY).is_file():
        for path in sorted(results_dir.iterdir()):
            found += [(f"{path.name}/{x}".rstrip("/"), path / x) for x in _labels(path)]
    begun = [(n, path) for n, path in found if _is_worth_a_line(path)]
    if not begun:  # a run itself, or the complaint that there is none
        begun = [(path.name, path) for path in run_folders(results_dir)]
    return [(name, RunFolder(path)) for name, path in begun]


def _is_worth_a_line(folder: Path) -> bool:
    """Whether it has begun, or failed before it could; what a run leaves that was killed before that is none."""
    return is_experiment(folder) or (has_begun(folder) and not RunFolder(folder).never_began())


def _labels(folder: Path) -> list[str]:
    """Labels of an experiment's runs; "" alone for a single run, and where they cannot be told."""
    with suppress(InputError):
        return labels_of(folder) if is_experiment(folder) else [""]
    return [""]


def _rounds(folder: RunFolder) -> list[tuple[int, dict[str, float]]]:
    path = folder.path / HISTORY
    if not path.exists():
        return []
    rows = read_rows(path, torn_end=True)
    return [(r["round"], r.get("metrics", {})) for r in rows if r["kind"] in ("round", "closing")]


def keys_table(system: str, rows: Sequence[KeyRow]) -> Table:
    """Every key of a system with its default, its meaning and what it may be."""
    columns = [Column(name, overflow="fold") for name in ("key", "default", "meaning")]
    table = Table(*columns, title=f"system = {system}", show_lines=False)
    for row in rows:
        table.add_row(row.key, str(row.default), row.meaning)
    return table
