"""The Flower ServerApp of every system: checks the configuration, runs the rounds, writes what is left at the end.

The command line has checked everything before; it is all repeated here for runs started with plain
`flwr run .`.
"""

import traceback
from collections.abc import Mapping
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsuite.checkpoint import arrays_to_bytes
from fedsuite.config import RunSettings, to_flat
from fedsuite.errors import InputError, RunFailed
from fedsuite.files import write_atomically, write_json
from fedsuite.run_folder import RunFolder, check_folder, folder_of
from simulations.systems import Progress, System, settings_of
from strategies.flower_strategy import FedsuiteStrategy
from strategies.round_loop import OnEvent

app = ServerApp()
# A run that was killed lets go of its folder a moment later, when its processes have noticed.
LOCK_PATIENCE_S = 20.0


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Entry point of Flower."""
    serve(grid, context.run_config, progress=print)


def serve(
    grid: Grid,
    run_config: Mapping[str, Any],
    on_event: OnEvent = lambda _: None,
    progress: Progress = lambda _: None,
) -> None:
    """A whole run over any grid. However it ends, run.json says how, and a failure is raised."""
    system, settings = settings_of(run_config)
    folder = folder_of(settings)
    check_folder(folder, settings)
    with folder.locked(LOCK_PATIENCE_S):
        folder.begin()
        try:
            _serve(grid, system, settings, folder, on_event, progress)
        except KeyboardInterrupt:
            folder.end("stopped", "stopped by the user")
            raise
        except InputError as error:
            folder.end("failed", str(error), "input")
            raise
        except RunFailed as error:
            folder.end("failed", str(error), "run")
            raise
        except BaseException as error:
            with folder.errors.open("a", encoding="utf-8") as file:
                file.write(f"--- server\n{traceback.format_exc()}\n")
            folder.end("failed", f"{type(error).__name__}: {error}", "bug")
            raise
        folder.end("completed")


def _serve(
    grid: Grid,
    system: System[Any],
    settings: RunSettings,
    folder: RunFolder,
    on_event: OnEvent,
    progress: Progress,
) -> None:
    system.validate(settings)
    system.prepare(settings, progress)
    write_json(folder.config, {**to_flat(settings), "resume": ""})
    strategy = FedsuiteStrategy(
        system.make_strategy(settings, folder.path),
        settings,
        folder,
        system.num_partitions(settings),
        on_event,
    )
    result = strategy.run(grid)
    write_atomically(folder.model, arrays_to_bytes(dict(result.state.arrays)))
    system.closing(settings, folder.path)
