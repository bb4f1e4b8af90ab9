"""A small real system for tests of the plumbing: federated linear regression with private per-client state.

Each client holds y = X w* + noise; it trains w by one gradient step a round, and keeps a private
momentum vector on its own disk. Faults are asked for by settings: a client that raises, dies,
hangs, or sends what it must not.
"""

import dataclasses
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.numpy_client_app import named_arrays, named_reply
from fedsuite.errors import InputError
from fedsuite.federation import (
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Member, Roster
from fedsuite.runs.folder import folder_of
from fedsuite.runs.versions import Versions, checkpoint_rounds
from fedsuite.settings.config import RunSettings, setting
from fedsuite.storage.progress import Progress
from simulations.systems import System


@dataclass(frozen=True)
class ToySettings(RunSettings):
    """All keys of the toy system."""

    system: str = setting("tests.toy:SYSTEM", "this system")
    num_clients: int = setting(3, "clients", ge=1)
    width: int = setting(4, "features", ge=1)
    step_size: float = setting(0.1, "gradient step", gt=0)
    data_file: str = setting("", "a file that must exist; empty = none")
    fault: str = setting(
        "", "what goes wrong: raise, exit, hang, nan, shape, metric, server-nan, pause, refused"
    )
    fault_partition: int = setting(1, "where", ge=0)
    fault_round: int = setting(2, "when", ge=1)
    round_time_s: float = setting(0.0, "seconds that a client takes", ge=0, may_change=True)


def _client_data(c: ToySettings, partition: int) -> tuple[np.ndarray, np.ndarray]:
    rng = rng_for(c.seed, "toy data", partition=partition)
    x = rng.standard_normal((20 + partition, c.width)).astype(np.float32)
    w = np.arange(1, c.width + 1, dtype=np.float32)
    return x, x @ w + 0.01 * rng.standard_normal(len(x)).astype(np.float32)


class ToyClient(NumPyClient):
    """One owner of data."""

    def __init__(self, settings: ToySettings, partition: int) -> None:
        self.c, self.partition = settings, partition
        self.x, self.y = _client_data(settings, partition)
        self.private = Versions(
            folder_of(settings).client(f"site-{partition}") / "momentum", f"site-{partition}"
        )

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        self.private.rollback(int(config["resume-round"]))
        return {
            "partition": self.partition,
            "name": f"site-{self.partition}",
            "num-examples": len(self.x),
            "rows": len(self.x),
        }

    def fit(
        self, parameters: Sequence[np.ndarray], config: dict[str, Any]
    ) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        number = int(config["round"])
        time.sleep(self.c.round_time_s)
        self._misbehave(number)
        arrays = named_arrays(parameters, config)
        kept = self.private.load(number, config.get("last-trained", 0))
        momentum = kept[0]["momentum"] if kept else np.zeros(self.c.width, np.float32)
        noise = rng_for(self.c.seed, "toy noise", number, self.partition).standard_normal()
        error = self.x @ arrays["w"] - self.y
        momentum = 0.5 * momentum + self.x.T @ error / len(self.x)
        w = arrays["w"] - np.float32(self.c.step_size) * momentum + np.float32(1e-3 * noise)
        self.private.save(number, {"momentum": momentum}, {"rounds": number})
        self.private.prune(checkpoint_rounds(config))
        return named_reply(
            self._spoilt(number, {"w": w}), len(self.x), self._metrics(number, error)
        )

    def evaluate(
        self, parameters: Sequence[np.ndarray], config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        error = self.x @ named_arrays(parameters, config)["w"] - self.y
        return float(np.mean(error**2)), len(self.x), {}

    def _is_faulty(self, number: int, fault: str) -> bool:
        c = self.c
        return (fault, self.partition, number) == (c.fault, c.fault_partition, c.fault_round)

    def _misbehave(self, number: int) -> None:
        if self._is_faulty(number, "raise"):
            raise ValueError("the toy broke\nsecond line")
        if self._is_faulty(number, "exit"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._is_faulty(number, "hang"):
            time.sleep(600)

    def _spoilt(self, number: int, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        if self._is_faulty(number, "nan"):
            return {"w": arrays["w"] * np.float32(np.nan)}
        if self._is_faulty(number, "shape"):
            return {"w": arrays["w"][:-1]}
        return arrays

    def _metrics(self, number: int, error: np.ndarray) -> dict[str, Any]:
        loss = float(np.mean(error**2))
        return {"loss": float("inf") if self._is_faulty(number, "metric") else loss}


class ToyStrategy(RoundStrategy):
    """Weighted mean of the clients' w."""

    def __init__(self, settings: ToySettings) -> None:
        self.c = settings
        if settings.fault == "refused":
            raise InputError("fault: refused by the strategy; leave it out")

    def start(self, clients: Clients) -> Exchanges:
        yield []
        w = rng_for(self.c.seed, "toy start").standard_normal(self.c.width).astype(np.float32)
        return RoundResult(ServerState({"w": w}, {"seen": 0}))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        replies = yield [Task(c.partition, "train", state.arrays, {"extra": "x"}) for c in clients]
        total = sum(r.num_examples for r in replies)
        w = sum(np.float32(r.num_examples / total) * r.arrays["w"] for r in replies)
        if (self.c.fault, self.c.fault_round) == ("server-nan", number):
            w = w * np.float32(np.nan)
        if (self.c.fault, self.c.fault_round) == ("server-large", number):
            w = np.round(w / np.abs(w).max() * np.float32(9)) * np.float32(1e6)
        if (self.c.fault, self.c.fault_round) == ("server-bug", number):
            raise KeyError("a bug in the strategy")
        metrics = {"train-loss": float(np.mean([r.metrics["loss"] for r in replies]))}
        scalars = {**state.scalars, "seen": int(state.scalars["seen"]) + total}
        after = dataclasses.replace(state, arrays={"w": np.asarray(w, np.float32)}, scalars=scalars)
        return RoundResult(after, metrics)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        replies: Sequence[Reply] = yield [
            Task(c.partition, "evaluate", state.arrays) for c in clients
        ]
        return RoundResult(state, {"loss": float(np.mean([r.metrics["loss"] for r in replies]))})


def _validate(settings: ToySettings) -> None:
    if settings.data_file and not Path(settings.data_file).exists():
        raise InputError(f"{settings.data_file}: no such file; set data-file to one that exists")


def _prepare(settings: ToySettings, progress: Progress) -> Roster:
    progress("nothing to prepare")
    members = (Member(f"site-{i}", "site", 20 + i) for i in range(settings.num_clients))
    return Roster(tuple(members))


def _report(settings: ToySettings, folder: Path) -> None:
    (folder / "closing.txt").write_text("done\n")


SYSTEM = System(
    name="toy",
    config_class=ToySettings,
    validate=_validate,
    prepare=_prepare,
    make_strategy=lambda settings, roster: ToyStrategy(settings),
    make_client=lambda settings, node: ToyClient(settings, node.partition),
    report=_report,
    leaves=("closing.txt", "compared.json"),
)


def _compare(folder: Path, runs: Mapping[str, ToySettings]) -> None:
    seen = {label: [c.name, c.results_dir, c.width, c.seed] for label, c in runs.items()}
    (folder / "compared.json").write_text(json.dumps(seen))
    (folder / "results.md").write_text("".join(f"compared {label}\n\n" for label in runs))


VALIDATED: list[ToySettings] = []
COUNTED = dataclasses.replace(SYSTEM, validate=VALIDATED.append)
COMPARING = dataclasses.replace(SYSTEM, compare=_compare)
