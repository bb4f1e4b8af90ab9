"""Where an experiment's runs are carried out, and what that needs: the data here, or a roster and nodes that have them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from fedsuite.errors import InputError, RunFailed, check_installed
from fedsuite.history import OnEvent
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.runs.folder import read_stored_config
from fedsuite.settings.config import Value
from fedsuite.settings.unread import unread_lines
from fedsuite.storage.files import as_typed
from fedsuite.storage.progress import Progress
from simulations.app.message_costs import long_run
from simulations.engines.nodes.connection import Connection, connection_of
from simulations.engines.ray.placement import Placement, Resources, cores
from simulations.experiments.plan import Plan
from simulations.experiments.tracking import checked_trackers

Engine = Literal["auto", "ray", "inprocess", "deploy"]
SMALL_S = 15.0  # of computing on one core: Ray's start takes as long as its workers could save


@dataclass(frozen=True)
class Way:
    """engine: one of three, never "auto"; connection: where to, of engine deploy alone; open: nobody asked for workers, so
    that a small run does without; log: trackers that are told; asked: the engine that was typed."""

    engine: Engine
    resources: Resources
    connection: Connection | None = None
    open: bool = False
    log: tuple[str, ...] = ()
    asked: Engine = "auto"

    @property
    def options(self) -> str:
        """What has to be typed again with --resume."""
        told = "".join(f" --log {as_typed(name)}" for name in self.log)
        if self.connection:
            return f" --engine deploy --connection {as_typed(self.connection.said)}{told}"
        engine = "" if self.asked == "auto" else f" --engine {self.asked}"
        return f"{engine}{self.resources.options}{told}"

    def check(self, plan: Plan) -> None:
        """InputError where a run's device does not go with the workers."""
        if self.engine == "ray" and not self.resources.cluster:
            self.resources.placed(plan.settings.device, 1)

    def suited(self, plan: Plan, roster: Roster) -> "Way":
        """The same, or in this process where Ray's start would be most of the run."""
        seconds = plan.system.seconds
        small = self.open and seconds is not None and seconds(plan.settings, roster) < SMALL_S
        return replace(self, engine="inprocess") if small else self

    def roster(self, plan: Plan, progress: Progress) -> Roster:
        """Who takes part: prepares the data, or reads what the nodes' operators have said of theirs."""
        if self.connection is None:
            return plan.system.prepare(plan.settings, progress)
        if not plan.settings.roster:
            raise InputError(
                "roster: empty, but real nodes have the data; make one with `fedsuite data make-roster`, and name it in "
                "the TOML or with --set roster=FILE"
            )
        return read_roster(Path(plan.settings.roster))

    def remarks(
        self, plan: Plan, roster: Roster, elsewhere: Collection[tuple[str, Value]] = ()
    ) -> Iterator[str]:
        """What to tell before the run; elsewhere: keys and values that other runs of its experiment read."""
        yield from unread_lines(plan.settings, plan.system.unread, elsewhere)
        way = self.suited(plan, roster)
        if way is not self:
            yield "in this process: Ray's start would be most of so small a run (--engine ray has workers)"
        if self.connection is None and plan.settings.roster and not _is_own_roster(plan):
            yield f"roster: nothing reads it with --engine {way.engine}, which makes one from the data at hand"
        if way.engine == "ray" and not self.resources.cluster:
            yield from self.resources.remarks(plan.settings.device, len(roster))
        if self.connection is not None:
            yield from _certificates_ending(self.connection)
        if self.connection is not None and plan.system.costs is not None:
            costs = plan.system.costs(plan.settings, roster)
            line = long_run(plan.settings, costs, len(roster))
            yield from [line] if line else []

    def launch(self, plan: Plan, clients: int, console: Console, told: OnEvent) -> None:
        """Run to the end; told: gets every event."""
        if self.resources.cluster:
            from simulations.engines.ray.cluster import joined

            with joined(self.resources.cluster, self.resources.hosts):
                self._launch(plan, clients, console, told)
        else:
            self._launch(plan, clients, console, told)

    def _launch(self, plan: Plan, clients: int, console: Console, told: OnEvent) -> None:
        on: str = self.engine
        if self.engine == "ray":
            placement = self._placement(plan, clients, console)
            on = f"ray: {placement}"
        where = f"{plan.folder.path}  ({clients} clients, {on})"
        console.print(where, highlight=False, soft_wrap=True)
        with _display(console, told) as show:
            if self.connection is not None:
                from simulations.engines.nodes.deployed import run_deployed

                run_deployed(plan.run_config, plan.folder, self.connection, show)
            elif self.engine == "inprocess":
                from simulations.engines.inprocess import run_inprocess

                run_inprocess(plan.run_config, show, launched=True)
            else:
                nodes = plan.system.simulated_nodes(plan.settings, clients)
                from simulations.engines.ray.launch import run_ray

                run_ray(plan.run_config, plan.folder, nodes, placement, show, launched=True)

    def _placement(self, plan: Plan, clients: int, console: Console) -> Placement:
        """Where the workers of a run go. How many share a GPU, if nobody says, is found by trying."""
        settings = plan.settings
        if self.resources.cluster:
            from simulations.engines.ray.crew import cluster_placement

            spread, remarks = cluster_placement(
                self.resources, plan.run_config, plan.folder.path, clients
            )
            for remark in remarks:
                console.print(remark, highlight=False, markup=False, soft_wrap=True)
            return spread
        placement = self.resources.placed(settings.device, clients)
        if not self.resources.leaves_open(settings.device, placement):
            return placement
        from simulations.engines.ray.dry_step import weighed

        try:
            with console.status(
                "dry step: clients of two messages train, to see how many workers a GPU holds"
            ):
                weight = weighed(plan.run_config)
        except RunFailed as error:
            told = f"dry step: {error}; so each GPU gets one worker (--workers-per-gpu)"
            console.print(told, highlight=False, markup=False, soft_wrap=True)
            return placement
        return weight.placed(placement.gpus, min(settings.open_clients, clients), cores())

    def finish(self, plan: Plan) -> None:
        """Tables of a run that has ended; pictures of the data where these are."""
        if self.connection is None:
            plan.system.draw(plan.settings, plan.folder.path)
        plan.system.report(plan.settings, plan.folder.path)


def _is_own_roster(plan: Plan) -> bool:
    """Whether the roster is the one that the run left in its own folder, wherever that lay then."""
    folder, roster = plan.folder, Path(plan.settings.roster)
    if roster == folder.path / ROSTER or not folder.config.is_file():
        return roster == folder.path / ROSTER
    stored = read_stored_config(folder)
    return roster == Path(str(stored.get("results-dir")), str(stored.get("name")), ROSTER)


def way_of(
    engine: Engine, suits: Engine, resources: Resources, connection: str, log: Sequence[str] = ()
) -> Way:
    """What the options stand for, checked; suits: the engine that "auto" is. InputError for what cannot work."""
    logs = checked_trackers(log)
    suits = "ray" if resources.cluster else suits
    chosen = suits if engine == "auto" else engine
    resources.check(chosen)
    if chosen == "ray":
        try:
            check_installed(["ray"])
        except InputError as error:
            raise InputError(f"{error}, or run it with --engine inprocess") from None
    if chosen == "deploy":
        found = connection_of(connection)
        found.check()
        return Way(chosen, resources, found, log=logs)
    if connection:
        raise InputError(
            f"--connection {connection}: only --engine deploy uses a running SuperLink; add that, or leave it out"
        )
    small = engine == "auto" and resources == Resources()
    return Way(chosen, resources, open=small, log=logs, asked=engine)


@contextmanager
def _display(console: Console, told: OnEvent) -> Iterator[OnEvent]:
    from simulations.experiments.progress import RunDisplay

    with RunDisplay(console) as display:

        def show(event: Any) -> None:
            display.show(event)
            told(event)

        yield show


def _certificates_ending(connection: Connection) -> Iterator[str]:
    """Lines about certificates of a server folder that end soon."""
    from simulations.deploy.kit.renewing import ending_soon
    from simulations.deploy.kit.server_folder import read_server

    if connection.commands.folder is not None:
        yield from ending_soon(read_server(connection.commands.folder))
