"""`fedsuite deploy cost`: how long the runs of configurations take on real nodes, before they compute anything."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedsuite.errors import InputError
from fedsuite.roster.members import Roster, read_roster
from fedsuite.runs.folder import variant_of
from fedsuite.settings.config import RunSettings, parse_text, read_config
from simulations.app.message_costs import (
    COLD_S,
    WARM_S,
    Deployment,
    StepCosts,
    duration,
    messages_of,
)
from simulations.experiments.request import Request, describe, split_changes
from simulations.shipped import config_file
from simulations.systems import load_system

SHOWN = 4  # names of runs in a line
OPEN = Deployment(0)  # nobody has said how many nodes


def cost(
    configs: Annotated[list[Path], typer.Argument(help="TOMLs of experiments, or shipped names.")],
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key, in all runs."),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(min=0, help="Say for so many nodes what an exchange with all of them costs."),
    ] = 0,
    megabytes: Annotated[
        float, typer.Option(min=0.0, help="Of arrays in a message, each way (--nodes).")
    ] = 0.4,
    cores: Annotated[
        int,
        typer.Option(
            min=0,
            help="Of the one machine on which SuperLink and nodes all are; 0: nodes have machines of their own (--nodes).",
        ),
    ] = 0,
) -> None:
    """Say how many messages one after another each run takes, as a table in Markdown.

    With a roster (--set roster=FILE, or in the TOML) for its members, else for generated data or the published data set.
    """
    for line in cost_table(configs, change or [], Deployment(nodes, megabytes, cores)):
        print(line)


def cost_table(
    configs: Sequence[Path], changes: Sequence[str] = (), known: Deployment = OPEN
) -> Iterator[str]:
    """Lines; runs of a file that take as many messages stand in one of them. known: 0 nodes where that is open."""
    cold_s, warm_s = COLD_S, WARM_S
    if known.nodes:
        cold_s, warm_s = known.exchange_s(warm=False), known.exchange_s(warm=True)
    yield f"| configuration | runs | messages | at {cold_s:.3g} s | warm, {warm_s:.3g} s |"
    yield "|---|---|---:|---:|---:|"
    for config in configs:
        alike: dict[tuple[int, bool], list[str]] = {}
        for label, settings in _runs(config, changes):
            costs = _costs(config, settings)
            listed = alike.setdefault((messages_of(settings, costs), costs.exact), [])
            if (name := variant_of(label)) not in listed:
                listed.append(name)
        for (count, exact), names in alike.items():
            shown = f"{'' if exact else 'about '}{count:,}"
            times = " | ".join(duration(count * s) for s in (cold_s, warm_s))
            file = config_file(config)
            place = f"{file.parent.name}/{file.name}"
            yield f"| {place} | {_listed(names)} | {shown} | {times} |"
    if known.nodes:
        yield ""
        yield (
            f"An exchange with {known.nodes} nodes, {known.megabytes:g} MB each way: {known.link_s:.1f} CPU seconds of the "
            f"SuperLink. Without a run they keep it at {100 * known.idle_share:.1f} % of a core."
        )


def _listed(names: Sequence[str]) -> str:
    """The first few."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN + 1 else ""
    return ", ".join(names[:SHOWN] if more else names) + more


def _runs(config: Path, changes: Sequence[str]) -> Iterator[tuple[str, RunSettings]]:
    """Label and settings of every run that a file describes; what they start from need not be there."""
    typed = split_changes(changes)
    described = describe(Request(config, changes, dry=True), typed)
    for run in described.runs:
        system = load_system(str(typed.get("system") or run.table.get("system", "fedvln")))
        values = {k: parse_text(system.config_class, k, text) for k, text in typed.items()}
        yield run.label, read_config(system.config_class, {**run.table, **values}, str(config))


def _costs(config: Path, settings: RunSettings) -> StepCosts:
    system = load_system(settings.system)
    if system.costs is None:
        raise InputError(
            f"{config}: system {settings.system} does not say what a round costs; give its System `costs`"
        )
    roster: Roster | None = read_roster(Path(settings.roster)) if settings.roster else None
    return system.costs(settings, roster)
