"""`fedsuite play`: an episode of a finished FedRL run, step by step; `fedsuite data split-parties`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedsuite.errors import InputError, one_line
from simulations.experiments.result_tables import find_run
from simulations.results.new_drawing import STILLS, check_new

FORMATS = (".gif", *STILLS)


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
    check_new(out, overwrite, FORMATS)
    folder = find_run(run).path
    from fedsuite.fedrl.player import Player
    from fedsuite.fedrl.report.episodes import lines_of, still, write_animation
    from fedsuite.reports.plots import save_figure

    moves = out is not None and out.suffix == ".gif"
    if step is not None and (out is None or moves):
        raise InputError("--step: chooses what a still shows; give --out with .png, .pdf or .svg")
    played = Player.of_run(folder, noise).episode(episode)
    if step is not None and step > len(played.steps):
        raise InputError(
            f"--step: episode {episode} has steps 1 to {len(played.steps)}, got {step}"
        )
    for line in lines_of(played):
        print(one_line(line))
    if out is None:
        return
    if moves:
        write_animation(played, out)
    else:
        save_figure(still(played, None if step is None else step - 1), out)
    print(f"drawn: {out}")


def split_parties(
    source: Annotated[
        Path, typer.Argument(help="Maps (frl_grid_N.npz) or texts (t2a_NAME.json.gz), whole.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="New folder.")],
    parties: Annotated[
        int, typer.Option(min=2, max=3, help="Maps: 3 writes gamma's file too.")
    ] = 2,
    task: Annotated[
        Literal["names", "arguments"] | None,
        typer.Option(help="Texts: the run's world.task; default: names."),
    ] = None,
) -> None:
    """Split FedRL's data into what each party may have: DIR/alpha, DIR/beta, each for that party's machine."""
    from fedsuite.fedrl import splitting
    from fedsuite.storage.files import make_new_folder

    names: list[str] = []

    def fill(folder: Path) -> None:
        names.extend(splitting.split_parties(source, folder, parties, task or ""))

    make_new_folder(out, fill)
    for name in names:
        print(f"{out / name}: the data.dir of {name}; for its machine alone")


def add_to(app: typer.Typer, data: typer.Typer) -> None:
    app.command()(play)
    data.command("split-parties")(split_parties)
