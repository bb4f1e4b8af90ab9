"""`--from RUN`: the run, or model file, that a new run goes on from."""

from pathlib import Path

from fedsuite.config import RunSettings, limits_of
from fedsuite.errors import InputError
from simulations.launch import read_toml, split_changes
from simulations.systems import load_system

KEY = "start-from"


def with_start(changes: list[str], start: str, config_file: Path | None, resume: str) -> list[str]:
    """The changes of --set with start-from = the absolute path of `start`; as they are if that is empty."""
    if not start:
        return changes
    if resume:
        raise InputError("--from starts a run and --resume continues one; give one of them")
    if config_file is None:
        raise InputError("--from: give a CONFIG.toml too, that says what to run")
    typed, table = split_changes(changes), read_toml(config_file)
    if KEY in typed:
        raise InputError(f"--from and --set {KEY} say the same; give one of them")
    name = str(typed.get("system") or table.get("system", RunSettings().system))
    if KEY not in limits_of(load_system(name).config_class):
        raise InputError(
            f"--from: system {name} has no key {KEY}, its runs begin anew; leave --from out"
        )
    results_dir = typed.get("results-dir") or str(table.get("results-dir", "runs"))
    return [*changes, f"{KEY}={_found(start, results_dir)}"]


def _found(start: str, results_dir: str) -> Path:
    """A run or file given by path, or by name inside results-dir."""
    for path in (Path(start).expanduser(), Path(results_dir).expanduser() / start):
        if path.exists():
            return path.absolute()
    raise InputError(f"--from: {start}: no such run or model; `fedsuite runs` lists the runs")
