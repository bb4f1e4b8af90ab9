"""Runs of configurations that no test has thought of, in four ways, whose bytes must be the same; run by hand.

    python -m tests.mistakes.drawn_runs FOLDER fedrl|cdl|fedvln [FIRST LAST]

Number n draws one of RUNS of silent_keys.py and 5 to 25 other values that go with each other. Its run is played whole; by
clients that forget what they had in memory and answer in reverse order; stopped after a drawn round, and resumed; and by
two Ray workers, one of which is killed. It prints a line for each one that differs, or fails: what cannot work is to be
refused as InputError, before settings are written. A quarter of a minute a number.
"""

import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from flwr.app import Context, Message

from fedsuite.errors import InputError, RunFailed
from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import limits_of, value_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, run_inprocess, server_identity
from simulations.engines.ray import launch
from simulations.engines.ray.hands import ThisHost
from simulations.engines.ray.placement import Placement
from simulations.engines.ray.session import ray_for
from simulations.server_app import serve
from simulations.systems import to_run_config
from tests.harness import prepared, results_of
from tests.mistakes.silent_keys import RUNS, SAME, Keys, Playing, other_values
from tests.watching import forget

ROUNDS = 3
MEMORY: Keys = {"spill-above": 0, "open-clients": 1}
"""What a server and a process keep in memory is no matter of what is learnt."""
OF_FILES = {"stage", "data.test-split", "data.dataset"}
"""Keys with values that need another run's folder, or data that nobody generates."""
BY_CHANCE = "sealed-keys", "secure-sum-peers"
"""Private state with keys, which no seed gives."""


class Backwards(InProcessGrid):
    """Clients answer in reverse order; `forgetful` in a hundred answers come from what is as good as a new process."""

    def __init__(self, nodes: int, config: Mapping[str, Any], forgetful: int) -> None:
        super().__init__(self._answer, nodes, config)
        self.rng, self.forgetful = rng_for(0, "forgetting"), forgetful
        for context in self.contexts.values():
            context.node_config["resident"] = False

    def _answer(self, message: Message, context: Context) -> Message:
        if self.rng.integers(100) < self.forgetful:
            forget()
        return client_app(message, context)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return super().pull_messages(reversed([*message_ids]))


def drawn(playing: Playing, number: int) -> dict[str, Any]:
    """The keys of a run, all of which `validate` accepts."""
    rng, lines = rng_for(number, "drawn-run"), RUNS[playing.name]
    line = lines[rng.integers(len(lines))]
    keys = playing.keys_of(line) | {"system": playing.name, "num-rounds": ROUNDS}
    names = [
        k for k in limits_of(playing.system.config_class) if k not in {*line, *SAME, *OF_FILES}
    ]
    for key in map(str, rng.choice(names, rng.integers(5, 26), replace=False)):
        found = other_values(playing.system, key, value_of(playing.settings(keys), key))
        if found:
            tried = {**keys, "privacy.noise": "seeded", key: found[rng.integers(len(found))]}
            with suppress(InputError):
                playing.settings(tried)
                keys = tried
    return keys


def complaint(playing: Playing, number: int) -> str:
    """What is wrong with the run of a number; nothing if nothing is."""
    keys = drawn(playing, number)
    with tempfile.TemporaryDirectory() as place:
        way, folder = "whole", RunFolder(Path(place) / "whole" / "run")
        try:
            wanted = _whole(playing, keys, folder)
            for way, play in WAYS.items():
                found = play(playing, keys, RunFolder(Path(place) / way / "run"))
                if other := sorted(
                    k for k in wanted.keys() | found.keys() if wanted.get(k) != found.get(k)
                ):
                    return f"{way}: other bytes in {', '.join(other)}"
        except InputError as error:
            return f"{way}: {error}" if folder.config.exists() else ""
        except RunFailed as error:
            return f"{way}: {error}"
        except Exception:
            return f"{way}: {traceback.format_exc()}"
    return ""


def _config(playing: Playing, keys: Keys, folder: RunFolder, **more: Any) -> dict[str, Any]:
    place = {"name": folder.path.name, "results-dir": str(folder.path.parent)}
    return to_run_config(playing.settings({**keys, **place, **more}))


def _left(folder: RunFolder) -> dict[str, str]:
    return {k: v for k, v in results_of(folder).items() if not any(part in k for part in BY_CHANCE)}


def _whole(playing: Playing, keys: Keys, folder: RunFolder) -> dict[str, str]:
    run_inprocess(_config(playing, keys, folder))
    return _left(folder)


def _forgetful(playing: Playing, keys: Keys, folder: RunFolder) -> dict[str, str]:
    memory = {} if keys.get("sabotage.clients") else MEMORY  # some attacks look at all replies
    config = _config(playing, {**keys, **memory}, folder)
    settings = playing.settings(keys)
    nodes = playing.system.simulated_nodes(settings, len(prepared(config)))
    # A relay has thousands of messages, and to forget takes a while.
    grid = Backwards(nodes, config, forgetful=1 if playing.name == "fedrl" else 12)
    with server_identity():
        serve(grid, config)
    return _left(folder)


def _resumed(playing: Playing, keys: Keys, folder: RunFolder) -> dict[str, str]:
    last = int(rng_for(len(keys), "stop").integers(1, ROUNDS + 1))

    def stop(event: Mapping[str, Any]) -> None:
        if event["round"] == last:
            raise RunFailed("stopped here")

    with suppress(RunFailed):
        run_inprocess(_config(playing, keys, folder), stop)
    forget()
    run_inprocess(_config(playing, keys, folder, resume=str(folder.path)))
    return _left(folder)


def _on_ray(playing: Playing, keys: Keys, folder: RunFolder) -> dict[str, str]:
    rng, workers = rng_for(len(keys), "kill"), list[Any]()
    last, after_s = int(rng.integers(1, ROUNDS + 1)), rng.uniform(0, 0.5)
    if keys.get("privacy.unit") == "example":
        last = ROUNDS + 1  # nobody is killed: a visit that is made twice counts twice, as it should

    def this_host(hire: Callable[[bool], Any]) -> ThisHost:
        def hired(apart: bool) -> Any:
            workers.append(hire(apart))
            return workers[-1]

        return ThisHost(hired)

    def kill(event: Mapping[str, Any]) -> None:
        # Only once: from then on the list has at most the one that replaces it.
        if event["round"] == last and len(workers) == 2:
            threading.Timer(after_s, ray.kill, [workers[0]]).start()
            workers.clear()

    config = _config(playing, keys, folder)
    nodes = playing.system.simulated_nodes(playing.settings(keys), len(prepared(config)))
    with patch.object(launch, "ThisHost", this_host):
        launch.run_ray(config, folder, nodes, Placement(2), kill)
    return _left(folder)


WAYS = {"forgetful": _forgetful, "resumed": _resumed, "on Ray": _on_ray}


def main(name: str, folder: Path, first: int = 0, last: int = 99) -> None:
    playing = Playing(name, folder / name)
    with ray_for(Placement(2), folder):
        for number in range(first, last + 1):
            if said := complaint(playing, number):
                print(f"{number}: {said}\n  {drawn(playing, number)}", flush=True)
            if number % 10 == 9 or number == last:
                print(f"{first} to {number} done", flush=True)


if __name__ == "__main__":
    main(sys.argv[2], Path(sys.argv[1]), *map(int, sys.argv[3:]))
