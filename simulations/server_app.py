"""The Flower ServerApp of every system: checks the configuration, runs the rounds, writes what is left at the end.

With a roster the server opens no data; without one (plain `flwr run .` on one machine) it prepares the data itself, and
checks all that the command line has checked before.
"""

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.run import RunNotRunningException

from fedsuite.arrays import arrays_to_bytes
from fedsuite.errors import InputError, RunFailed, check_installed, is_refusal, one_line, refused
from fedsuite.history import Kind, OnEvent, kind_of, line_about
from fedsuite.history.metrics import write_metrics
from fedsuite.roster.members import ROSTER, VOCABULARY, read_roster, write_roster
from fedsuite.roster.same_data import check_same_data
from fedsuite.runs.folder import RunFolder, check_folder, folder_of
from fedsuite.settings.config import to_flat
from fedsuite.settings.unread import unread_lines
from fedsuite.storage.escaping import LONGEST, replace_what_stdout_lacks
from fedsuite.storage.files import write_atomically, write_json
from fedsuite.storage.progress import Progress, in_lines, silent
from simulations.deploy.log_lines import stamped
from simulations.deploy.meter import metered
from simulations.deploy.trying_again import try_again_over
from simulations.systems import settings_of
from strategies.runtime.flower_strategy import FedsuiteStrategy
from strategies.runtime.post import is_real

app = ServerApp()
# A run that was killed lets go of its folder a moment later, when its processes have noticed.
LOCK_PATIENCE_S = 20.0
METRICS_IN_LOG = 6
ENDED_BY_FLOWER = (
    "Flower ended the run: flwr stop, or its SuperLink was ended; continue with resume"
)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """What it prints is shown by `flwr log` and `flwr run --stream`."""
    replace_what_stdout_lacks()
    folder = folder_of(settings_of(context.run_config)[1])
    if is_real(grid) and not try_again_over(grid):
        _say("this Flower's server cannot be made to ask again after an error 500 of its SuperLink")
    with metered(folder, context.run_id) as hear:

        def tell(event: Mapping[str, Any]) -> None:
            in_log(event)
            hear(event)

        placement = {"engine": "flower", "flower-run": str(context.run_id)}
        serve(grid, context.run_config, tell, in_lines(_say), placement)


def serve(
    grid: Grid,
    run_config: Mapping[str, Any],
    on_event: OnEvent = lambda _: None,
    progress: Progress = silent,
    placement: Mapping[str, Any] | None = None,
    validated: bool = False,
    tables: bool = True,
) -> None:
    """A whole run over any grid. However it ends, run.json says how, and a failure is raised.

    placement: for run.json; validated: this process has put the settings through all checks already; tables: write
    them here, and draw; False where the caller does.
    """
    check_installed()
    system, settings = settings_of(run_config)
    folder = folder_of(settings)
    check_folder(folder, settings)
    status = _status_kept(folder, placement, bool(settings.resume))
    if settings.resume and (line := folder.other_versions()):
        progress(line)
    with folder.locked(LOCK_PATIENCE_S), status:
        if not validated:
            system.validate(settings)
        given = Path(settings.roster) if settings.roster else None
        roster = read_roster(given) if given else system.prepare(settings, progress)
        if settings.resume:
            check_same_data(folder.path / ROSTER, roster)
        for line in unread_lines(settings, system.unread):
            progress(line)
        # What has settings is a run, so nothing has them that the strategy refuses.
        rounds = system.make_strategy(settings, roster)
        write_roster(folder.path / ROSTER, roster)
        write_json(folder.config, {**to_flat(settings), "resume": ""})
        write_metrics(folder.path, system.metrics(settings))
        known = system.known if settings.evaluation_clients and not is_real(grid) else None
        told = known(settings, roster) if known else None
        strategy = FedsuiteStrategy(rounds, settings, folder, roster, on_event, told)
        result = strategy.run(grid)
        write_atomically(folder.model, arrays_to_bytes(dict(result.state.arrays)))
        if roster.words:
            write_atomically(folder.path / VOCABULARY, json.dumps(roster.words).encode())
        if tables and not given:
            system.draw(settings, folder.path)
        if tables:
            system.report(settings, folder.path)


def in_log(event: Mapping[str, Any]) -> None:
    """One line a round, and one for every client that is lost or comes back."""
    kind, where = kind_of(event), f"round {event['round']}"
    if kind in (Kind.ROUND, Kind.CLOSING):
        told = [f"{k} {v:.4g}" for k, v in event["metrics"].items()][:METRICS_IN_LOG]
        told = [f"{event['seconds']:.1f} s", *told]
        _say(f"{where if kind is Kind.ROUND else 'at the end'}: {', '.join(told)}")
    elif line := line_about(event):
        _say(line)


def _say(line: str) -> None:
    print(stamped(one_line(line, LONGEST)), flush=True)


@contextmanager
def _status_kept(
    folder: RunFolder, placement: Mapping[str, Any] | None, resumed: bool
) -> Iterator[None]:
    """run.json says that the run goes on, and then how it ended."""
    folder.begin(placement, resumed)
    try:
        yield
    except KeyboardInterrupt:
        _end(folder, "stopped", "stopped by the user")
        raise
    except (SystemExit, RunNotRunningException):
        _end(folder, "stopped", ENDED_BY_FLOWER)
        raise
    except (InputError, RunFailed) as error:
        kind = "input" if isinstance(error, InputError) else "run"
        _end(folder, "failed", str(error), kind)
        raise
    except BaseException as error:
        if isinstance(error, OSError) and is_refusal(error):
            known = refused(error)
            _end(folder, "failed", str(known), "input" if isinstance(known, InputError) else "run")
            raise known from error
        with suppress(InputError, RunFailed):
            folder.log_error("server", traceback.format_exc())
        _end(folder, "failed", f"{type(error).__name__}: {error}", "bug")
        raise
    folder.end("completed")


def _end(folder: RunFolder, status: str, error: str, kind: str = "") -> None:
    """Where not even this can be written, what went wrong before is what counts: the run is then known as interrupted."""
    with suppress(InputError, RunFailed):
        folder.end(status, error, kind)
