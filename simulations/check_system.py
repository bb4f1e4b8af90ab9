"""Holds a whole System to its contract: settings, roster, both halves, and that runs repeat and resume to the byte."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fedsuite.checking.contract import no_exception, require
from fedsuite.checking.numpy_client import ask, check_client, info_of
from fedsuite.checking.strategy import check_strategy
from fedsuite.errors import InputError, RunFailed
from fedsuite.federation import Reply, RoundStrategy, Task
from fedsuite.history import HISTORY, OnEvent
from fedsuite.roster.members import ROSTER, Roster, read_roster, write_roster
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import RunSettings, Value, limits_of, read_config, to_flat
from fedsuite.storage.progress import silent
from simulations.engines.inprocess import run_inprocess
from simulations.systems import Node, System, load_system, to_run_config

OUTSIDE: Mapping[type, tuple[Value, ...]] = {
    bool: (True, False), int: (-1, 0, 1, 2), float: (-1.0, 0.0, 0.5, 1.0), str: ("", "no-such"),
}  # fmt: skip


def check_system(
    values: Mapping[str, Value], folder: Path, data: Path | None = None, runs: bool = True
) -> None:
    """Check the System that values["system"] names with settings that make a tiny run; ContractError for a broken clause.

    values: settings by dotted keys, the fewer rounds and data the better; `name` and `results-dir` are set here.
    folder: where runs and rosters are written; data: what holds all data after `prepare`. Torch is left with
    `client-threads` threads.

    * every field of System is callable where it must be; the settings are a frozen, hashable dataclass of RunSettings,
      all fields made by setting(...), defaults valid
    * validate accepts these settings, and refuses others with InputError alone
    * prepare returns the same Roster twice, with distinct names, and it survives being written and read
    * make_strategy opens nothing below `data`; make_client's clients have the roster's names and partitions
    * strategy and clients, put together, pass check_strategy and check_client
    * runs: two runs give the same bytes of history and model, and so does one that was interrupted and resumed
    """
    system = load_system(str(values["system"]))
    _check_fields(system)
    values = {**values, "results-dir": str(folder / "runs"), "name": "parts"}
    settings = read_config(system.config_class, values, "check_system")
    _check_validate(system, settings)
    roster = _check_roster(system, settings, folder)
    _check_parts(system, settings, roster, data)
    if runs:
        _check_runs(values, folder / "runs")


def _check_fields(system: System[Any]) -> None:
    for name in ("prepare", "make_strategy", "make_client", "validate", "report", "draw"):
        found = getattr(system, name)
        require(callable(found), name, "a function", found, "called where it is given")
    cls = system.config_class
    good = isinstance(cls, type) and issubclass(cls, RunSettings)
    good = good and "__dataclass_fields__" in vars(cls) and cls.__dataclass_params__.frozen
    cause = "@dataclass(frozen=True)"
    require(good, "config_class", "a frozen dataclass of RunSettings", cls, cause)
    with no_exception("config_class", "a field without setting(...), or a list as default"):
        limits_of(cls)
        hash(cls())
    try:
        same = read_config(cls, to_flat(cls())) == cls()
    except InputError as error:
        require(False, "config_class", "valid defaults", error, "a limit that its default breaks")
    require(same, "config_class", "defaults that read back", cls(), "a __post_init__ that changes")


def _check_validate(system: System[Any], settings: RunSettings) -> None:
    """Every key changed alone: whatever is not refused by its limits must be accepted or refused by validate."""
    system.validate(settings)
    flat, limits = to_flat(settings), limits_of(type(settings))
    for key, value in flat.items():
        for other in limits[key].choices or OUTSIDE[type(value)]:
            try:
                changed = read_config(type(settings), {**flat, key: other})
                with no_exception(f"validate, {key} = {other!r}", "a combination not thought of"):
                    system.validate(changed)
            except InputError as error:
                good = str(error).strip() and "\n" not in str(error)
                require(good, f"validate, {key}", "one line of error", str(error), "a list")


def _check_roster(system: System[Any], settings: RunSettings, folder: Path) -> Roster:
    roster, again = (system.prepare(settings, silent) for _ in range(2))
    kind = type(roster)
    require(kind is Roster, "prepare", "a Roster", kind.__name__, "a missing return")
    folder.mkdir(parents=True, exist_ok=True)
    write_roster(folder / ROSTER, roster)
    try:
        read = read_roster(folder / ROSTER)
    except InputError as error:
        require(False, "prepare", "a roster that can be read", error, "names that are the same")
    written = [dataclasses.asdict(r) for r in (roster, again, read)]
    cause = "draws that are not of the seed, or an order of files or sets"
    require(written[0] == written[1], "prepare", "the same roster twice", "another", cause)
    cause = "a tuple, a set or a key that is not a text in details or facts"
    require(written[0] == written[2], "prepare", "JSON values alone", written[0], cause)
    return read


def _check_parts(
    system: System[Any], settings: RunSettings, roster: Roster, data: Path | None
) -> None:
    folders = [folder_of(settings).client(name) for name in roster.names]

    def make_client(partition: int) -> Any:
        return system.make_client(settings, Node(roster, partition, folders[partition]))

    def make_strategy(name: str = "parts-again") -> RoundStrategy:
        # In a folder of its own: a ledger of what was released rightly counts what is done again.
        own = dataclasses.replace(settings, name=name)
        folder_of(own).path.mkdir(parents=True, exist_ok=True)
        return system.make_strategy(own, roster)

    torch.set_num_threads(settings.client_threads)  # as the client app does
    with _away(data):
        try:
            strategy = make_strategy("parts")
        except Exception as error:
            require(False, "make_strategy", "no need of data", error, "the roster must say all")
    tasks: list[list[Task]] = [[] for _ in folders]
    clients = [make_client(p) for p in range(len(folders))]
    infos = [info_of(client) for client in clients]
    for p, (info, name) in enumerate(zip(infos, roster.names, strict=True)):
        found, expected, cause = (info.partition, info.name), (p, name), "take both from the Node"
        require(found == expected, f"client {p}", f"partition and name {expected}", found, cause)

    def answer(task: Task) -> Reply:
        tasks[task.partition].append(task)
        return ask(clients[task.partition], task)

    rounds = min(2, settings.num_rounds)
    check_strategy(
        strategy, infos, rounds=rounds, answer=answer, make=make_strategy, may_lose=False
    )
    for p, own in enumerate(folders):
        check_client(clients[p], tasks[p], folder=own, make=partial(make_client, p))


@contextmanager
def _away(data: Path | None) -> Iterator[None]:
    """The folder has another name for a while."""
    hidden = data.rename(data.with_name(f"{data.name}-away")) if data else None
    try:
        yield
    finally:
        if hidden and data:
            hidden.rename(data)


def _check_runs(values: Mapping[str, Value], results: Path) -> None:
    first = _run({**values, "name": "first"}, results)
    again = _run({**values, "name": "again"}, results)
    cause = "draws that are not of the seed, times, or an order of files or sets"
    require(first == again, "the same run twice", "the same history and model", "others", cause)
    rounds = int(values.get("num-rounds", RunSettings().num_rounds))

    def interrupt(event: Mapping[str, Any]) -> None:
        if event["round"] == rounds:
            raise RunFailed("interrupted by check_system")

    with suppress(RunFailed):
        _run({**values, "name": "stopped"}, results, interrupt)
    resumed = _run({**values, "name": "stopped", "resume": str(results / "stopped")}, results)
    cause = "something is kept in memory that belongs into the state, or into the client's folder"
    require(resumed == first, "a resumed run", "the bytes of an uninterrupted one", "others", cause)


def _run(
    values: Mapping[str, Value], results: Path, on_event: OnEvent = lambda _: None
) -> tuple[bytes, bytes]:
    """History and model of a run."""
    system = load_system(str(values["system"]))
    run_inprocess(to_run_config(read_config(system.config_class, values)), on_event)
    folder = RunFolder(results / str(values["name"]))
    return (folder.path / HISTORY).read_bytes(), folder.model.read_bytes()
