"""From what was typed to a run that can start; every complaint comes before anything is launched."""

import dataclasses
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.config import RunSettings, limits_of, parse_text, read_config, to_flat
from fedsuite.errors import InputError
from fedsuite.run_folder import RunFolder, check_folder, folder_of, read_stored_config
from simulations.systems import Progress, System, load_system

# The processes of a killed run need a moment to notice and let go of its folder.
RESUME_PATIENCE_S = 15.0
# Lies in the folder of an experiment of several runs (simulations/experiment.py), whose runs lie below.
EXPERIMENT_FILE = "experiment.json"


@dataclass(frozen=True)
class Plan:
    """A checked run: nothing has been written yet."""

    system: System[Any]
    settings: RunSettings
    folder: RunFolder

    @property
    def run_config(self) -> dict[str, Any]:
        """What server and clients get: every key, absolute paths."""
        return to_flat(self.settings)


# Starts a run and waits for its end; gets the number of clients.
Launch = Callable[[Plan, int], None]


def make_plan(
    config_file: Path | None, changes: Sequence[str], resume: str, overwrite: bool
) -> Plan:
    """Merge stored configuration (when resuming), TOML and --set, check all of it, and find the run folder."""
    if config_file is None and not resume:
        raise InputError("give a CONFIG.toml, or a run to continue with --resume")
    if resume and overwrite:
        raise InputError("--overwrite replaces a run and --resume continues it; give one of them")
    typed = split_changes(changes)
    table = read_toml(config_file) if config_file else {}
    if typed.get("resume") or table.get("resume"):
        raise InputError("resume: use the option --resume RUN")
    results_dir = typed.get("results-dir") or str(table.get("results-dir", "runs"))
    resumed = find_folder(resume, results_dir) if resume else None
    stored = read_stored_config(resumed) if resumed else {}
    if config_file is None:
        table = dict(stored)
    wanted = typed.get("system") or table.get("system", RunSettings().system)
    system = load_system(str(wanted))
    source = str(config_file or (resumed.config if resumed else "configuration"))
    cls = system.config_class
    values = {key: parse_text(cls, key, text) for key, text in typed.items()}
    read_config(cls, table, source)  # so that a complaint names the file the key stands in
    settings = read_config(cls, {**table, **values}, "--set" if values else source)
    settings = _placed(settings, config_file, resumed)
    folder = folder_of(settings)
    if (folder.path / EXPERIMENT_FILE).exists():
        raise InputError(
            f"{folder.path}: holds an experiment of several runs; choose another name for this run"
        )
    if not overwrite:
        check_folder(folder, settings)
    elif folder.path.exists() and not (folder.status() or folder.config.exists()):
        raise InputError(
            f"{folder.path}: not a run folder, --overwrite will not delete it; choose another name"
        )
    system.validate(settings)
    return Plan(system, settings, folder)


def make_ready(plan: Plan, overwrite: bool, progress: Progress) -> int:
    """Delete the run to be replaced, convert data; returns the number of clients."""
    if plan.folder.path.exists():
        with plan.folder.locked(RESUME_PATIENCE_S if plan.settings.resume else 0.0):
            pass  # nobody else writes here
    plan.system.prepare(plan.settings, progress)
    clients = plan.system.num_partitions(plan.settings)
    if overwrite and plan.folder.path.exists():
        shutil.rmtree(plan.folder.path)
    return clients


def split_changes(changes: Sequence[str]) -> dict[str, str]:
    """KEY=VALUE texts as a table."""
    table = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not (key.strip() and equals):
            raise InputError(f"--set: expected KEY=VALUE, got {change!r}")
        table[key.strip()] = value.strip()
    return table


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; InputError if it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; `ls simulations/*/` shows the TOMLs that come along"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: no valid TOML ({error}); text values need quotes") from None


def find_folder(resume: str, results_dir: str) -> RunFolder:
    """A run, or an experiment of several, given by path or by name inside results-dir."""
    for path in (Path(resume).expanduser(), Path(results_dir) / resume):
        if path.is_dir():
            return RunFolder(path.absolute())
    raise InputError(f"{resume}: no such run folder; `fedsuite runs` lists the runs")


def _placed(
    settings: RunSettings, config_file: Path | None, resumed: RunFolder | None
) -> RunSettings:
    """Give the run its name and absolute paths."""
    changes: dict[str, Any] = {}
    if resumed is not None:
        changes = {"resume": str(resumed.path), "name": resumed.path.name}
        changes["results_dir"] = str(resumed.path.parent)
    elif not settings.name and config_file is not None:
        changes["name"] = config_file.stem
    settings = dataclasses.replace(settings, **changes)
    return dataclasses.replace(settings, **absolute_paths(settings))


def absolute_paths(settings: RunSettings) -> Mapping[str, Any]:
    """Field -> absolute path, for every field that is a file or folder and not empty."""
    limits = limits_of(type(settings))
    flat = to_flat(settings)
    return {
        key.replace("-", "_"): str(Path(str(value)).expanduser().absolute())
        for key, value in flat.items()
        if limits[key].path and value
    }
