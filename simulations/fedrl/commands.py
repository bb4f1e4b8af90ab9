"""`fedsuite play`: an episode of a finished FedRL run, step by step."""

from pathlib import Path
from typing import Annotated

import typer

from simulations.experiments.tables import find_run
from simulations.results.new_drawing import check_new

FORMATS = (".gif", ".png", ".pdf", ".svg")


def play(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Completed FedRL run (path or name).")],
    episode: Annotated[
        int, typer.Option(metavar="N", help="Episode of the run's test, from 0.")
    ] = 0,
    noise: Annotated[
        bool | None,
        typer.Option(
            "--noise/--no-noise", help="The test with or without noise; default: without, if made."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Draw to this new file: .gif moves, .png, .pdf, .svg."),
    ] = None,
    step: Annotated[
        int | None, typer.Option(min=1, help="Step to draw in a still; default: the end.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the drawing.")] = False,
) -> None:
    """Print a greedy episode of a completed FedRL run: views, Q-values, actions, rewards."""
    folder = find_run(run).path
    if out is not None:
        check_new(out, overwrite, FORMATS)
    from fedsuite.fedrl.player import Player
    from fedsuite.fedrl.report.episodes import lines_of, still, write_animation
    from fedsuite.report.plots import save_figure

    played = Player.of_run(folder, noise).episode(episode)
    figure = still(played, None if step is None else step - 1)
    for line in lines_of(played):
        print(line)
    if out is None:
        return
    if out.suffix == ".gif":
        write_animation(played, out)
    else:
        save_figure(figure, out)
    print(f"drawn: {out}")


def add_to(app: typer.Typer) -> None:
    app.command()(play)
