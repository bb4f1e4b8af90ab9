"""`fedsuite steer`: what a finished CDL run makes of pictures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedsuite.errors import one_line
from simulations.experiments.result_tables import find_run
from simulations.results.new_drawing import check_new

if TYPE_CHECKING:
    import numpy as np

    from fedsuite.driving.data.given import Given
    from fedsuite.driving.steering import Pilot

Drawing = Literal["frames", "angles", "errors", "overlay"]


def steer(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Completed CDL run (path or name).")],
    pictures: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PICTURE",
            help="Pictures, folders of pictures, drives; default: the frames that the run's silos hold back for testing.",
        ),
    ] = None,
    silo: Annotated[
        str, typer.Option(metavar="NAME", help="Steer with this silo's network, not the average.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Draw to this new file (.png, .pdf, .svg).")
    ] = None,
    drawing: Annotated[Drawing, typer.Option(help="What to draw.")] = "frames",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the drawing.")] = False,
) -> None:
    """Print the angle that a completed CDL run steers for every picture."""
    check_new(out, overwrite)
    folder = find_run(run).path
    from fedsuite.driving.steering import Pilot

    pilot = Pilot.of_run(folder, silo)
    given = pilot.read(pictures) if pictures else pilot.test_frames()
    angles = pilot.steer_frames(given.images)
    for line in _lines(pilot, given, angles):
        print(one_line(line))
    if out is not None:
        from fedsuite.driving.report.drawings import draw
        from fedsuite.reports.plots import save_figure

        save_figure(draw(drawing, pilot, given, angles), out)
        print(f"drawn: {out}")


def add_to(app: typer.Typer) -> None:
    app.command()(steer)


def _lines(pilot: "Pilot", given: "Given", angles: "np.ndarray") -> list[str]:
    """One line a picture; where angles were recorded, the errors at the end."""
    import numpy as np

    from fedsuite.driving.evaluation.metrics import errors_of
    from fedsuite.driving.steering import direction

    unit, degrees = pilot.unit, pilot.degrees_per_unit
    width = max(map(len, given.names))
    lines = []
    for name, angle, truth in zip(given.names, angles.tolist(), given.truth.tolist(), strict=True):
        turned = f"{angle * degrees:+6.1f}°  " if degrees else ""
        known = f"  recorded {truth:+.4f}" if np.isfinite(truth) else ""
        lines.append(f"{name:{width}}  {angle:+.4f} {unit}  {turned}{direction(angle)}{known}")
    recorded = np.isfinite(given.truth)
    if recorded.any():
        e = errors_of(angles[recorded], given.truth[recorded])
        told = ", ".join(f"{m.heading} {e.scores[m.name]:.4f}" for m in e.rows)
        lines.append(f"{told} {unit} over {e.count} frames")
    return lines
