"""The default engine: server in this process, clients in workers that are actors of this process's own Ray.

It writes the bytes of the engine in process; plain `flwr run` of the same apps, Flower's own simulation, writes them, too.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from fedsuite.errors import RunFailed
from fedsuite.history import OnEvent
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from fedsuite.storage.files import write_json
from simulations.engines.inprocess import server_identity
from simulations.engines.ray.cluster import needed
from simulations.engines.ray.crew import ClusterPlacement, Crew
from simulations.engines.ray.hands import ThisHost
from simulations.engines.ray.keeping import Kept
from simulations.engines.ray.logs import RAY_LOGS, cause, keep_logs
from simulations.engines.ray.placement import Placement
from simulations.engines.ray.session import ray_for
from simulations.engines.ray.waiting import Waiting


def run_ray(
    run_config: Mapping[str, Value],
    folder: RunFolder,
    num_nodes: int,
    placement: Placement,
    on_event: OnEvent = lambda _: None,
    launched: bool = False,
) -> None:
    """Run to the end; InputError or RunFailed with one line if it does not get there. Ctrl-C stops the run.

    launched: the caller has put the settings through all checks, and writes the tables when this has ended.
    """
    from simulations.server_app import serve

    with Waiting(on_event) as waiting:
        waiting.what = "Ray to start"
        try:
            with ray_for(placement, folder.path) as logs:
                from simulations.engines.ray.grid import RayGrid

                waiting.what = "the workers to start"
                kept, hands = Kept(folder.path), _hands(placement, run_config, folder)
                grid = RayGrid(hands, placement.workers, num_nodes, run_config, logs, kept)
                try:
                    _ready(grid)
                    waiting.what = "the clients"
                    with server_identity():
                        serve(
                            grid,
                            run_config,
                            waiting.show,
                            placement=placement.record(),
                            validated=launched,
                            tables=not launched,
                        )
                except RunFailed as error:
                    if not grid.gave_up:
                        raise
                    keep_logs(logs, folder.path)
                    raise RunFailed(
                        f"{error} (what the workers said: {folder.path / RAY_LOGS})"
                    ) from None
                finally:
                    grid.stop()
        except RunFailed as error:
            if not folder.status_file.exists():  # the server has not begun
                _note(folder, run_config, str(error))
            raise


def _hands(placement: Placement, run_config: Mapping[str, Value], folder: RunFolder) -> Any:
    """Where workers come from: this host alone, or those of a cluster."""
    import ray

    from simulations.engines.ray.worker import Worker

    share = 1 / placement.per_gpu if placement.gpus else 0
    paths, system = [os.path.abspath(path) for path in sys.path], str(run_config["system"])

    def hire(apart: bool, **where: Any) -> Any:
        actor = ray.remote(Worker).options(num_cpus=1, num_gpus=share, max_restarts=0, **where)
        return actor.remote(paths, os.getcwd(), placement.environment(), apart, system)

    if isinstance(placement, ClusterPlacement):
        return Crew(placement, needed(run_config, folder.path), hire)
    return ThisHost(hire)


def _ready(grid: Any) -> None:
    """RunFailed, with what kept it from it, if a worker cannot start."""
    from ray.exceptions import RayError

    try:
        grid.ready()
    except RayError as error:
        raise RunFailed(f"a worker did not start: {cause(grid.logs, error)}") from None


def _note(folder: RunFolder, run_config: Mapping[str, Value], reason: str) -> None:
    """The folder of a run whose server never began says why."""
    folder.path.mkdir(parents=True, exist_ok=True)
    if not folder.config.exists():
        write_json(folder.config, {**run_config, "resume": ""})
    folder.end("failed", reason, "run")
