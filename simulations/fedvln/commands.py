"""`fedsuite walk`: an instruction of one's own, followed by the agents of finished FedVLN runs."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsuite.errors import InputError
from fedsuite.storage.escaping import PlainConsole
from simulations.results.new_drawing import check_new

if TYPE_CHECKING:
    from fedsuite.vln.evaluation.following import InstructionWalk
    from fedsuite.vln.walking import Walker


def add_to(app: typer.Typer) -> None:
    """Give the command line `walk`."""
    app.command("walk")(walk)


def walk(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Completed runs (path or name); several are compared."
        ),
    ],
    house: Annotated[str, typer.Option(metavar="H", help="House of the run's data.")] = "",
    instruction: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Where to walk; default: what --path says.")
    ] = None,
    path: Annotated[
        str,
        typer.Option(metavar="ID", help="Annotated path, or instruction, to start and score by."),
    ] = "",
    start: Annotated[
        str,
        typer.Option(
            metavar="VIEWPOINT",
            help="Where to start, or how its id begins; default: an annotated start.",
        ),
    ] = "",
    heading: Annotated[
        float | None,
        typer.Option(metavar="DEGREES", help="Where the camera looks first: 0 = +y, clockwise."),
    ] = None,
    personal: Annotated[
        bool,
        typer.Option("--personal", help="Walk with the house's own agent, where the run kept one."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Draw house, walks and attention to this new file (.png, .pdf, .svg).",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of --out.")
    ] = False,
) -> None:
    """Have a run's agent follow an instruction in a house; print every step, and draw it."""
    from fedsuite.vln.walking import Walker
    from simulations.experiments.progress import Preparing
    from simulations.experiments.result_tables import find_run
    from simulations.fedvln.walk_table import lines_of

    check_new(out, overwrite)
    folders = [find_run(run).path for run in runs]
    if len(set(folders)) < len(folders):
        raise InputError("RUN: one is given twice; give runs that differ")
    console = PlainConsole(highlight=False, markup=False, emoji=False)
    with Preparing(console) as progress:
        walkers = [Walker.of_run(f, house, personal=personal, progress=progress) for f in folders]
    heading_rad = None if heading is None else math.radians(heading)
    walks: dict[str, InstructionWalk] = {}
    for name, walker in zip(short_names(folders), walkers, strict=True):
        walks[name] = walker.walk(instruction, path=path, start=start, heading_rad=heading_rad)
        _check_same(walkers[0], next(iter(walks.values())), walker, walks[name], name)
        for line in lines_of(name, walker, walks[name]):
            console.print(line, soft_wrap=isinstance(line, str))
    if out is not None:
        from fedsuite.reports.plots import save_figure
        from fedsuite.vln.report.walks import compare_walks

        save_figure(compare_walks(walkers[0].plan, walks), out)
        console.print(f"drawn: {out}", soft_wrap=True)


def short_names(folders: Sequence[Path]) -> list[str]:
    """The folders without the parts that all begin or all end with, at least one part each."""
    parts = [list(folder.parts) for folder in folders]
    for end in (0, -1):
        while len({p[end] for p in parts}) == 1 and min(map(len, parts)) > 1:
            for own in parts:
                own.pop(end)
    return ["/".join(p) for p in parts]


def _check_same(
    first: "Walker", its: "InstructionWalk", other: "Walker", walk: "InstructionWalk", name: str
) -> None:
    """Walks are compared on the same graph, from the same start, along the same path."""
    one, two = first.house.graph, other.house.graph
    same = one.viewpoint_ids == two.viewpoint_ids and (one.position_m == two.position_m).all()
    if not same or (its.viewpoints[0], its.reference) != (walk.viewpoints[0], walk.reference):
        raise InputError(
            f"{name}: its data have another house {one.scan}, or other paths there; compare runs of the same data"
        )
