"""`fedsuite run --attach RUN`: follows a run on real nodes that another command has started, and changes nothing."""

import typer
from rich.markdown import Markdown

from fedsuite.errors import InputError
from fedsuite.storage.escaping import PlainConsole
from fedsuite.storage.files import as_typed
from simulations.commands.stopping import EXIT_STOPPED
from simulations.engines.nodes.connection import connection_of
from simulations.engines.nodes.deployed import attach_deployed
from simulations.experiments.progress import RunDisplay
from simulations.experiments.result_tables import find_run


def attach(run: str, connection: str) -> None:
    """Show the run from its beginning to its end, with its table; errors as those of the command that has started it.

    Ctrl-C ends the watching alone.
    """
    folder = find_run(run)
    run_id = (folder.status().get("placement") or {}).get("flower-run")
    if not run_id:
        raise InputError(
            f"{folder.path}: no run of a SuperLink; look at any run with `fedsuite watch {as_typed(folder.path)}`"
        )
    found = connection_of(connection)
    found.check()
    console = PlainConsole()

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    say(f"{folder.path}  (run {run_id} of {found.said}, only watched)")
    try:
        with RunDisplay(console) as display:
            attach_deployed(folder, found, str(run_id), display.show)
    except KeyboardInterrupt:
        again = f"fedsuite run --attach {as_typed(folder.path)} --connection {as_typed(found.said)}"
        say(f"no longer watched; the run goes on, watch it with: {again}")
        raise typer.Exit(EXIT_STOPPED) from None
    if folder.results.is_file():
        console.print(Markdown(folder.results.read_text(encoding="utf-8"), hyperlinks=False))
    say(f"completed: {folder.path}")
