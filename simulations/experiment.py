"""Experiments of several runs: what a TOML with [variants.NAME] tables, a [sweep] or a list of seeds asks for.

    num-rounds = 100
    seeds = [0, 1]            # optional: every variant once per seed
    [variants.cdl]
    loss = "kl"

Each run is an ordinary one in <results-dir>/<name>/<variant>, or .../<variant>/seed-<s>; that path below the
experiment's folder is its label. Keys of a variant go before those of the file, --set before both.
Everything is checked here, before the first run starts. experiment.json in the experiment's folder
lists variants, seeds, the sweep, the SHA-256 of the TOML and every run's settings, so that the experiment can go
on without the TOML.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.config import RunSettings, parse_text, read_config, to_flat
from fedsuite.errors import InputError
from fedsuite.files import sha256_of
from fedsuite.run_folder import folder_of
from simulations.experiment_plans import check_begun, chosen_labels, plan_of
from simulations.launch import EXPERIMENT_FILE, Plan, find_folder, read_toml, split_changes
from simulations.sweep import SWEEP, recorded_sweep
from simulations.systems import System, load_system
from simulations.typed_sweep import TypedSweep
from simulations.variants import PLACING, SEEDS, VARIANTS, RunTable, runs_of, sweep_of

FORMAT = 1
_LOCK = ".lock"


@dataclass(frozen=True)
class Request:
    """What was typed after `fedsuite run`, or `fedsuite sweep`."""

    config_file: Path | None = None
    changes: Sequence[str] = ()
    resume: str = ""
    overwrite: bool = False
    only: Sequence[str] = ()
    sweep: TypedSweep | None = None
    seeds: str = ""


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: nothing has been written yet.

    plans: label -> run, in order, each as if it were new; chosen: labels to play now; record: the
    content of experiment.json; resumed, overwrite: what may be in the folder already.
    """

    folder: Path
    plans: Mapping[str, Plan]
    chosen: Sequence[str]
    record: Mapping[str, Any]
    resumed: bool
    overwrite: bool


def find_experiment(request: Request) -> Experiment | None:
    """The experiment of several runs that is asked for; None if it is one ordinary run."""
    if request.resume and request.overwrite:
        raise InputError("--overwrite replaces a run and --resume continues it; give one of them")
    typed = split_changes(request.changes)
    table = read_toml(request.config_file) if request.config_file else {}
    if request.seeds:
        table = _with_seeds(table, request)
    if request.sweep and request.config_file:
        table = request.sweep.over(table, typed, request.config_file)
    several = bool({VARIANTS, SEEDS, SWEEP} & set(table))
    stored_at = _stored_folder(request, typed, table)
    if request.sweep and stored_at is None and request.config_file is None:
        raise InputError("give a CONFIG.toml, or a sweep to continue with --resume")
    if not several and stored_at is None:
        if request.only:
            raise InputError("--only: this is a single run without [variants.NAME]; leave it out")
        return None
    if request.only and request.overwrite:
        raise InputError(
            "--overwrite replaces the whole experiment; to play one run again delete its folder, then "
            "--resume"
        )
    if typed.get("resume") or table.get("resume"):
        raise InputError("resume: use the option --resume RUN")
    old = read_record(stored_at) if stored_at else {}
    if request.config_file is None:
        source = f"{stored_at}/{EXPERIMENT_FILE}"
        runs = [RunTable(r["name"], r["settings"]) for r in old["runs"]]
        record = request.sweep.rejudged(old, source) if request.sweep else old
        return _checked(request, typed, source, runs, record, stored_at)
    source = str(request.config_file)
    if not several:
        raise InputError(
            f"{source}: has neither [variants.NAME] nor seeds nor a sweep, but {stored_at} is an experiment of "
            "several runs; resume it without the file"
        )
    if request.resume and stored_at is None:
        raise InputError(
            f"{request.resume}: a single run, but {source} describes several; give their experiment"
        )
    runs = runs_of(table, source)
    _check_same_runs(old, runs, source)
    digest = sha256_of(request.config_file.read_bytes())
    record = {"format": FORMAT, "source": request.config_file.name, "source-sha256": digest}
    record |= {VARIANTS: list(table.get(VARIANTS, {})), SEEDS: table.get(SEEDS, [])}
    sweep = sweep_of(table, source)
    record |= {SWEEP: sweep.record} if sweep else {}
    return _checked(request, typed, source, runs, record, stored_at)


def _with_seeds(table: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The file's keys with the seeds of --seeds in place of its own."""
    if request.config_file is None:
        raise InputError("--seeds: give the CONFIG.toml too, to change the runs of an experiment")
    parts = [part.strip() for part in request.seeds.split(",")]
    if not all(part.isdecimal() for part in parts) or len({*map(int, parts)}) < len(parts):
        raise InputError(
            f"--seeds must be different whole numbers >= 0, as in 0,1,2; got {request.seeds!r}"
        )
    return {k: v for k, v in table.items() if k != "seed"} | {SEEDS: [int(p) for p in parts]}


def read_record(folder: Path) -> dict[str, Any]:
    """experiment.json of an experiment; InputError if it is not one that was written here."""
    file = folder / EXPERIMENT_FILE
    try:
        record = dict(json.loads(file.read_text(encoding="utf-8")))
        if record["format"] == FORMAT and all(
            {"name", "settings"} <= set(r) for r in record["runs"]
        ):
            return record
        found = f"format {record['format']}"
    except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError):
        found = "no record of an experiment"
    raise InputError(f"{file}: {found}, expected format {FORMAT}; give the experiment another name")


def is_experiment(folder: Path) -> bool:
    """Whether an experiment of several runs writes here."""
    return (folder / EXPERIMENT_FILE).is_file()


def labels_of(folder: Path) -> list[str]:
    """Labels of all runs of an experiment, in order, begun or not."""
    return [str(run["name"]) for run in read_record(folder)["runs"]]


def check_place(experiment: Experiment) -> None:
    """Refuse to write among files of others and over an experiment."""
    folder = experiment.folder
    if is_experiment(folder):
        if not (experiment.resumed or experiment.overwrite):
            raise InputError(
                f"{folder}: an experiment of this name is there already; continue it with --resume "
                f"{folder}, choose another name, or replace it with --overwrite"
            )
        read_record(folder)
    elif folder.exists() and (not folder.is_dir() or {p.name for p in folder.iterdir()} - {_LOCK}):
        raise InputError(
            f"{folder}: holds something else than an experiment of several runs, which is left alone; "
            "choose another name"
        )


def _stored_folder(
    request: Request, typed: Mapping[str, str], table: Mapping[str, Any]
) -> Path | None:
    """The experiment to continue, if --resume names one."""
    if not request.resume:
        return None
    results_dir = typed.get("results-dir") or str(table.get("results-dir", "runs"))
    folder = find_folder(request.resume, results_dir).path
    return folder if is_experiment(folder) else None


def _check_same_runs(record: Mapping[str, Any], runs: Sequence[RunTable], source: str) -> None:
    """A file may add runs to an experiment, but not forget some."""
    gone = {r["name"] for r in record.get("runs", [])} - {run.label for run in runs}
    if gone:
        raise InputError(
            f"{source}: lacks {min(gone)}, which the experiment to resume has; put it back or start a "
            "new experiment"
        )


def _checked(
    request: Request,
    typed: Mapping[str, str],
    source: str,
    runs: Sequence[RunTable],
    record: Mapping[str, Any],
    stored_at: Path | None,
) -> Experiment:
    """All runs' settings through all checks of a single run, and the experiment's folder."""
    if "seed" in typed and record.get(SEEDS):
        raise InputError("--set: seed is given by the experiment's seeds; change them in the file")
    sweep = recorded_sweep(record, source)
    varied = set(typed) & set(sweep.vary) if sweep else set()
    if varied:
        raise InputError(
            f"--set: {min(varied)} is varied by the sweep; leave it out of one of them"
        )
    system = load_system(
        str(typed.get("system") or runs[0].table.get("system", RunSettings().system))
    )
    values = {key: parse_text(system.config_class, key, text) for key, text in typed.items()}
    folder = stored_at or _new_folder(request, system, {**runs[0].table, **values}, source)
    chosen = chosen_labels(request.only, [run.label for run in runs])
    plans = {
        run.label: plan_of(run, system, values, folder, source, run.label in chosen) for run in runs
    }
    if request.resume:
        for plan in plans.values():
            check_begun(plan)
    settings = [
        {
            "name": label,
            "settings": {k: v for k, v in to_flat(p.settings).items() if k not in PLACING},
        }
        for label, p in plans.items()
    ]
    experiment = Experiment(
        folder,
        plans,
        chosen,
        {**record, "runs": settings},
        bool(request.resume),
        request.overwrite,
    )
    check_place(experiment)
    return experiment


def _new_folder(
    request: Request, system: System[Any], table: Mapping[str, Any], source: str
) -> Path:
    """results-dir/name, the name being the file's unless one is given."""
    assert request.config_file is not None
    placing = {k: v for k, v in table.items() if k in PLACING}
    settings = read_config(system.config_class, placing, source)
    return folder_of(
        dataclasses.replace(settings, name=settings.name or request.config_file.stem)
    ).path
