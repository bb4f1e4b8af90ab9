"""A round of a finished run, played again on a copy: the real clients, and what the server saw of them.

The round is the one after the last checkpoint but one, so that with the run's own settings every reply has the bytes that it
had in the run; or the first one, from a new start, for settings that the run did not have. The run's folder stays as it is.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flwr.client import NumPyClient

from clients.numpy_client_app import numpy_client_app
from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo, Exchanges, Reply, RoundResult, ServerState, Task
from fedsuite.roster.members import ROSTER, Roster, write_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints, RunState
from fedsuite.settings.config import RunSettings, with_keys
from fedsuite.settings.values import Value
from simulations.client_app import as_the_node_says, make_client, says_who
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.systems import System, to_run_config
from strategies.runtime import bookkeeping
from strategies.runtime.bookkeeping import BEST_ROUND
from strategies.runtime.exchange import TaskExchange
from strategies.runtime.membership import gather
from strategies.runtime.records import RoundRecords

Altered = Callable[[NumPyClient], NumPyClient]  # a client, with other data say


@dataclass(frozen=True)
class Visit:
    """One task of a client, and its reply as it came: coded, noised or masked as the run has it."""

    client: ClientInfo
    task: Task
    reply: Reply


@dataclass(frozen=True)
class Round:
    """number: of the round; visits: in the order in which they came; result: what the server made of them."""

    number: int
    visits: tuple[Visit, ...]
    result: RoundResult

    @property
    def training(self) -> list[Visit]:
        """The visits in which a client trained."""
        return [v for v in self.visits if v.task.kind == "train"]


def replay(
    system: System[Any],
    config: RunSettings,
    roster: Roster,
    source: RunFolder,
    changes: Mapping[str, Value] | None = None,
    altered: Altered = lambda client: client,
    first: bool = False,
) -> Round:
    """The round of the run in `source`; changes: keys with other values; first: round 1, from a new start."""
    state = None if first else _state_before(source)
    with TemporaryDirectory(prefix="fedsuite-audit-") as place:
        # Replies stay in memory: they are looked at when the copy is gone.
        here: dict[str, Value] = {"name": "run", "results-dir": place, "resume": "", "roster": ""}
        here |= {"spill-above": 10**9, "evaluation-clients": 0}
        if hasattr(config, "privacy"):  # the copy's ledger has the round twice; none is released
            here["privacy.max-epsilon"] = 0.0
        settings = with_keys(config, {**(changes or {}), **here})
        copy = RunFolder(Path(place) / "run")
        copy.path.mkdir()
        write_roster(copy.path / ROSTER, roster)
        if state is not None and source.clients.is_dir():
            shutil.copytree(source.clients, copy.clients)
        app = numpy_client_app(
            lambda context: altered(make_client(context)), mods=[as_the_node_says, says_who]
        )
        nodes = system.simulated_nodes(settings, len(roster))
        with server_identity():
            grid = InProcessGrid(app, nodes, to_run_config(settings))
            return _played(system, settings, roster, grid, copy, state)


def _state_before(source: RunFolder) -> RunState | None:
    """The last checkpoint but one; None where the run's only earlier state is that before round 1."""
    checkpoints = Checkpoints(source.checkpoints)
    rounds = checkpoints.rounds()
    if not rounds or rounds[-1] == 0:
        raise InputError(
            f"{source.path}: has no checkpoint after a round, so that no visit can be played again; give a run that has "
            "trained, with its checkpoints/"
        )
    before = checkpoints.latest(rounds[-1])
    return before if before is not None and before.round else None


def _played(
    system: System[Any],
    settings: RunSettings,
    roster: Roster,
    grid: InProcessGrid,
    folder: RunFolder,
    state: RunState | None,
) -> Round:
    strategy = system.make_strategy(settings, roster)
    at = state.round if state else 0
    members = gather(grid, roster, at, settings, folder)
    exchange = TaskExchange(grid, settings, folder, members, lambda _: None)
    clients, visits = members.clients, list[Visit]()
    who = {client.partition: client for client in clients}

    def run(steps: Exchanges, number: int) -> RoundResult:
        records = RoundRecords(number, "", exchange.names)
        tasks: Sequence[Task]
        try:
            tasks = next(steps)
            while True:
                replies = exchange.replies(tasks, records)
                of = {reply.partition: reply for reply in replies}
                visits.extend(
                    Visit(who[t.partition], t, of[t.partition]) for t in tasks if t.partition in of
                )
                tasks = steps.send(replies)
        except StopIteration as stop:
            result: RoundResult = stop.value
            return result
        finally:
            exchange.spill.empty()

    server: ServerState
    if state is None:
        server = bookkeeping.begin(strategy, run(strategy.start(clients), 0).state)
        visits.clear()
    else:
        server = state.state
        exchange.trained = dict(state.trained)
        exchange.checkpoint_rounds = [at]
    exchange.best = {k: v for k, v in server.scalars.items() if k == BEST_ROUND}
    result = run(strategy.train(at + 1, server, clients), at + 1)
    return Round(at + 1, tuple(visits), result)
