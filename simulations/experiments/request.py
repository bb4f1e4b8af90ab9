"""What was typed after `fedsuite run`, and the runs that it describes, their keys yet unchecked.

A TOML describes one run, or one per variant, seed or combination of a sweep (variants.py; docs/experiments.md shows them).
What is stored of a run or an experiment takes the place of the TOML where it is resumed without one.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, one_line
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import RunSettings, to_flat
from fedsuite.storage.files import check_readable, sha256_of
from simulations.experiments import folders
from simulations.experiments.sweep import SWEEP, Sweep, SweepOptions, recorded_sweep
from simulations.experiments.variants import (
    SEEDS,
    VARIANTS,
    RunTable,
    base_of,
    one_variant,
    runs_of,
    sweep_of,
    with_seeds,
)
from simulations.shipped import config_file
from simulations.systems import load_system


@dataclass(frozen=True)
class Request:
    """The arguments. config_file: a path, or the name of a shipped configuration (shipped.py); sweep: None unless one was
    typed; dry: nothing will be written, whatever lies in the folder.
    """

    config_file: Path | None = None
    changes: Sequence[str] = ()
    start: str = ""
    resume: str = ""
    overwrite: bool = False
    only: Sequence[str] = ()
    seeds: str | None = None
    sweep: SweepOptions | None = None
    dry: bool = False

    def check(self) -> None:
        """InputError for what cannot be asked for together."""
        if self.resume and self.overwrite:
            raise InputError(
                "--overwrite replaces a run and --resume continues it; give one of them"
            )
        if self.resume and self.start:
            raise InputError("--from starts a run and --resume continues one; give one of them")
        vary = self.sweep.vary if self.sweep else ()
        typed = {
            "--seeds": self.seeds is not None,
            "--from": bool(self.start),
            "--vary": bool(vary),
            "--variant": bool(self.sweep and self.sweep.variant),
        }
        for option, is_typed in typed.items():
            if is_typed and not self.config_file:
                raise InputError(f"{option}: give the CONFIG.toml too, that says what to run")


@dataclass(frozen=True)
class Described:
    """Runs as a TOML or a stored folder lists them.

    source: the file, opens complaints; base: keys of all runs; record: the content of experiment.json but for the runs,
    None for a single run; name: what they are called if nobody gives a name; stored: the folder to resume.
    """

    source: str
    runs: Sequence[RunTable]
    base: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] | None = None
    sweep: Sweep | None = None
    name: str = ""
    stored: Path | None = None


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; InputError if it cannot be read."""
    check_readable(path, "a TOML file", "give a TOML file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: no valid TOML ({error}); text values need quotes") from None
    except (
        OSError,
        ValueError,
        RecursionError,
    ) as error:  # also bytes that are no UTF-8, endless numbers
        raise InputError(f"{path}: cannot be read ({error}); give a TOML file") from None


def split_changes(changes: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE texts as a table."""
    table = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not (key.strip() and equals):
            raise InputError(f"--set: expected KEY=VALUE, got {one_line(repr(change), 100)}")
        if key.strip() in table:
            raise InputError(f"--set: {key.strip()} is given twice; leave one of them out")
        table[key.strip()] = value.strip()
    return table


def given(key: str, typed: Mapping[str, str], table: Mapping[str, Any]) -> str:
    """A key of all systems, as --set, the file or the default says; not checked."""
    return str(typed.get(key) or table.get(key, to_flat(RunSettings())[key]))


def describe(request: Request, typed: Mapping[str, str]) -> Described:
    """The runs that are asked for; `typed`: the keys of --set."""
    request.check()
    file = config_file(request.config_file) if request.config_file else None
    table = read_toml(file) if file else {}
    if typed.get("resume") or table.get("resume"):
        raise InputError("resume: use the option --resume RUN")
    stored = None
    if request.resume:
        complaint = f"{request.resume}: no such run folder"
        results_dir = given("results-dir", typed, table)
        stored = folders.find(request.resume, results_dir, Path.is_dir, complaint)
        folders.check_begun(stored)
    if file:
        return replace(_in_file(request, file, typed, table), stored=stored)
    if stored:
        return _in_folder(request, stored)
    kind = "a sweep" if request.sweep else "a run"
    raise InputError(f"give a CONFIG.toml, or {kind} to continue with --resume")


def _in_file(
    request: Request, file: Path, typed: Mapping[str, str], table: Mapping[str, Any]
) -> Described:
    """The runs of a TOML's content, with the seeds and the sweep that were typed."""
    source, system = str(request.config_file), load_system(given("system", typed, table))
    if request.seeds is not None:
        table = with_seeds(table, request.seeds)
    options = request.sweep.table(system.config_class) if request.sweep else None
    name = folders.default_name(system.name, file.stem)
    if request.sweep and (variant := request.sweep.variant):
        table, name = one_variant(table, variant, source), f"{name}-{variant}"
    sweep = sweep_of(table, source, options, system.metrics(system.config_class()))
    if sweep and SWEEP not in table:  # a name in the file is that of its single run
        name = f"{table.get('name') or name}-sweep"
        table = {**table, "name": ""}
    runs = runs_of(table, source, sweep)
    if [run.label for run in runs] == [""]:
        return Described(source, runs, base_of(table, source), name=name)
    digest = sha256_of(file.read_bytes())
    record = {"format": folders.FORMAT, "source": file.name, "source-sha256": digest}
    record |= {VARIANTS: list(table.get(VARIANTS, {})), SEEDS: table.get(SEEDS, [])}
    record |= {SWEEP: sweep.record} if sweep else {}
    return Described(source, runs, base_of(table, source), record, sweep, name)


def _in_folder(request: Request, folder: Path) -> Described:
    """The run, or the runs of the experiment, to resume; a sweep may be judged anew."""
    several = folders.is_experiment(folder)
    source = str(folder / folders.EXPERIMENT_FILE) if several else str(RunFolder(folder).config)
    record = folders.read_record(folder) if several else {}
    options = request.sweep.table(RunSettings) if request.sweep else None
    sweep = recorded_sweep(record, source, options)
    if request.sweep and sweep is None:
        raise InputError(f"{source}: not a sweep; continue it with fedsuite run --resume")
    if not several:
        run = RunTable("", read_stored_config(RunFolder(folder)))
        return Described(source, [run], stored=folder)
    runs = [RunTable(run["name"], run["settings"]) for run in record["runs"]]
    record |= {SWEEP: sweep.record} if sweep else {}
    return Described(source, runs, {}, record, sweep, stored=folder)
