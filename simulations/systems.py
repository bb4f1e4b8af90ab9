"""Which system a run is of: a small explicit table, and the extension point.

`system = "fedvln"` names a row of the table; `system = "package.module:ATTRIBUTE"` names a System of your own, in any module
that Python can import (installed, or on PYTHONPATH). Nothing is imported before it is asked for.

In Flower's run-config, one flat table, the keys of a system stand under its name
(`fedvln.federation.participation-rate`), those of RunSettings by themselves (`seed`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from fedsuite.errors import InputError, unknown_key
from fedsuite.roster.members import Member, Roster
from fedsuite.roster.node import NodeSettings
from fedsuite.roster.node_report import Part
from fedsuite.settings.config import RunSettings, Value, limits_of, read_config, to_flat
from fedsuite.settings.metrics import NO_ROWS, Metrics
from fedsuite.settings.unread import Unread
from fedsuite.settings.values import chosen, imported
from fedsuite.storage.progress import Progress
from simulations.app.message_costs import StepCosts

if TYPE_CHECKING:
    from flwr.client import NumPyClient

    from fedsuite.federation import ClientInfo, RoundStrategy
    from fedsuite.privacy.findings import Finding
    from fedsuite.reports.page.questions import Answers, RunRead

BUILT_IN: Mapping[str, str] = {
    "fedvln": "simulations.fedvln.system:SYSTEM",
    "cdl": "simulations.cdl.system:SYSTEM",
    "fedrl": "simulations.fedrl.system:SYSTEM",
}
C = TypeVar("C", bound=RunSettings)
_PLAIN = {bool, int, float, str}
# Simulated nodes that play all members of a run whose evaluations ask some: Flower looks after every node ten times a
# second, and hands each one message then.
MOST_NODES = 64


@dataclass(frozen=True, eq=False)
class Node:
    """What a client's process knows before it opens any data.

    roster, partition: who takes part, and which of them this is; folder: private; options: the node's own configuration;
    real: that says who it is, as in a simulation it does not; own: what its own file says, None without one.
    """

    roster: Roster
    partition: int
    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    real: bool = False
    own: NodeSettings | None = None

    @property
    def member(self) -> Member:
        return self.roster.members[self.partition]


def _nothing(*_: object) -> None:
    """A step that a system does without."""


@dataclass(frozen=True)
class Later:
    """The function at `module:NAME`, imported when it is called: a server has no use for data and training."""

    path: str

    def __call__(self, *given: Any) -> Any:
        return self.load()(*given)

    def load(self) -> Callable[..., Any]:
        """The function itself; who will call it soon may import it before."""
        found: Callable[..., Any] = imported(self.path, self.path, {})
        return found


_plain_answers = Later("fedsuite.reports.page.questions:plain_answers")


@dataclass(frozen=True)
class System(Generic[C]):
    """What the server app, the client app and the command line need to know of a system.

    prepare: where the data are: convert them once (quick when all is there) and say who takes part.
    make_strategy: the server's half: opens no data.
    make_client: a client's half: opens its own data and nothing of others.
    validate: raise InputError for settings that cannot work; fast, opens no data, writes nothing.
    draw: baselines and pictures of a finished run that need the data; only where these are.
    report: tables and curves, from the run's folder alone; after draw.
    compare: tables and plots over the completed runs of an experiment of several; gets its folder and
    the settings by run, "variant" or "variant/seed-0", whose folder is the one of that name inside.
    It writes <folder>/results.md. None: a table of the last metrics.
    metrics: the table of metrics of a run with these settings; others are shown by name.
    answers: what `fedsuite report` says of a run, from what was read of it; opens no data.
    audit: the attacks of `fedsuite audit` on runs with these settings, by name, as
    simulations/audits/audited.py has them; InputError where there are none for such runs. None: it has none.
    engine: where clients run if nobody says; "inprocess" suits protocols of many small messages.
    describe: where one member's own data are, by its name: convert and check them, and say what the roster needs to know
    (the third argument: whether to count words). None: it cannot.
    accepts: a client's half: raise InputError for what a node with these settings refuses; opens no data.
    node_key: key of a real node's configuration that says which member it is.
    unread: keys that nothing reads with certain values of others; whoever sets them is told.
    costs: messages one after another that each step of the strategy takes; opens no data; the roster is None where it is not
    known. None: it does not say.
    seconds: computing of a whole run on one core, to a factor of a few, from the settings and who takes part: whether Ray's
    start pays. None: it does not say.
    known: what clients would say of themselves, from a roster that `prepare` has made; opens no data. None: every client of
    a simulation is asked, whatever evaluation-clients is.
    leaves: all names that draw, report, compare and clients give to files in a run's or an experiment's folder, as
    fedsuite.storage.deleting takes them ("learning.png", "clients/*/walks.json"); states of fedsuite.runs.versions
    and results.md are known. A folder with other files in it is not deleted to begin a run anew.
    """

    name: str
    config_class: type[C]
    prepare: Callable[[C, Progress], Roster]
    make_strategy: Callable[[C, Roster], "RoundStrategy"]
    make_client: Callable[[C, Node], "NumPyClient"]
    validate: Callable[[C], None] = _nothing
    draw: Callable[[C, Path], None] = _nothing
    report: Callable[[C, Path], None] = _nothing
    compare: Callable[[Path, Mapping[str, C]], None] | None = None
    metrics: Callable[[C], Metrics] = lambda _: NO_ROWS
    answers: Callable[[C, "RunRead"], "Answers"] = _plain_answers
    audit: "Callable[[C], Mapping[str, Callable[[Any], Iterator[Finding]]]] | None" = None
    engine: Literal["ray", "inprocess"] = "ray"
    describe: Callable[[C, str, bool, Progress], Part] | None = None
    accepts: Callable[[C, NodeSettings], None] = _nothing
    node_key: str = "name"
    unread: Unread = field(default_factory=dict)
    costs: Callable[[C, Roster | None], StepCosts] | None = None
    seconds: Callable[[C, Roster], float] | None = None
    known: Callable[[C, Roster], "Sequence[ClientInfo]"] | None = None
    leaves: Sequence[str] = ()

    def simulated_nodes(self, settings: C, members: int) -> int:
        """Nodes that a simulation needs: one for each member, or some that play all."""
        return min(members, MOST_NODES) if settings.evaluation_clients and self.known else members


def load_system(name: str) -> System[Any]:
    """The System called `name`, or found at `module:attribute`; InputError if there is none."""
    found = chosen("system", name, BUILT_IN)
    if name in BUILT_IN:
        found = imported("system", found, BUILT_IN)
    if not isinstance(found, System):
        raise InputError(f"system: {name!r} is a {type(found).__name__}, expected a System")
    return found


def to_run_config(settings: RunSettings) -> dict[str, Value]:
    """All settings as a Flower run-config; `settings_of` reads it."""
    name = load_system(settings.system).name
    return {_placed(key, name): value for key, value in to_flat(settings).items()}


def settings_of(run_config: Mapping[str, Any]) -> tuple[System[Any], RunSettings]:
    """System and settings of a Flower run-config.

    Flower adds every key of the app with its default, so keys of other built-in systems may be there at their
    defaults; InputError for another value of these, and for unknown keys.
    """
    types = tuple(map(type, run_config.values()))  # for 1 == True
    if {*types} <= _PLAIN:
        return _settings_of(tuple(run_config.items()), types)
    return _read(run_config)


@lru_cache(maxsize=16)  # asked for with every message
def _settings_of(
    items: tuple[tuple[str, Value], ...], types: tuple[type, ...]
) -> tuple[System[Any], RunSettings]:
    return _read(dict(items))


def _read(run_config: Mapping[str, Any]) -> tuple[System[Any], RunSettings]:
    system = load_system(str(run_config.get("system", RunSettings().system)))
    own = {_placed(key, system.name): key for key in limits_of(system.config_class)}
    for key in run_config.keys() - own.keys():
        other = key.partition(".")[0]
        if other not in BUILT_IN or other == system.name:
            raise InputError(f"run-config: {unknown_key(key, own)}")
        defaults = to_run_config(load_system(other).config_class())
        if key not in defaults:
            raise InputError(f"run-config: {unknown_key(key, defaults)}")
        if run_config[key] != defaults[key]:
            raise InputError(
                f"run-config: {key} is of system {other}, but the run is of {system.name}; leave it out, or set "
                f'system = "{other}"'
            )
    values = {key: run_config[placed] for placed, key in own.items() if placed in run_config}
    return system, read_config(system.config_class, values, "run-config")


def _placed(key: str, name: str) -> str:
    """A key of a settings class in the run-config."""
    return key if key in limits_of(RunSettings) else f"{name}.{key}"
