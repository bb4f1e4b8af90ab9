"""CPU time of FedRL's training in process over DQN-full's, at the same number of gradient steps.

Grid-World of 8 x 8 generated maps, H = 2, B = 32, K = 16 (exchange-every), both through the whole app: round loop, messages
(pickled both ways), histories, parties' state on disk after each round. DQN-full is one party whose round is one message;
FedRL is two parties, five messages an exchange. The two alternate, so that drift of the machine meets both; the first round
of each run (start, and steps before replay is filled) is not counted. Tests are left out of both. CPU time of the process,
one torch thread: other programs disturb it less.

--literal also measures K = 1, the paper's algorithms message by message, against DQN-full with K = 1.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.report import finish, median
from fedsuite.fedrl.config import (
    DataSettings,
    EvaluationSettings,
    FederationSettings,
    FedRLConfig,
    LearningSettings,
    PrivacySettings,
)
from fedsuite.fedrl.open_world import prepare_world
from fedsuite.storage.progress import silent
from simulations.engines.inprocess import run_inprocess
from simulations.systems import to_run_config

ROUNDS, STEPS, REPEATS, GOAL = 4, 512, 5, 1.5


def settings(folder: Path, method: str, repeat: int, envs: int) -> FedRLConfig:
    """ROUNDS rounds of STEPS environment steps, as many gradient steps, and the smallest test at the end."""
    return FedRLConfig(
        name=f"{method}-{envs}-{repeat}",
        results_dir=str(folder / "runs"),
        num_rounds=ROUNDS,
        evaluate_every=0,
        data=DataSettings(cache_dir=str(folder / "cache")),
        federation=FederationSettings(method, parallel_episodes=envs),
        learning=LearningSettings(round_length=STEPS),
        privacy=PrivacySettings(test_noise="none"),
        evaluation=EvaluationSettings(episodes=1),
    )


def seconds(config: FedRLConfig) -> float:
    """Median CPU seconds of a round between the first, which fills replay, and the last, which is validated."""
    ended: list[float] = []

    def note(event: Mapping[str, Any]) -> None:
        if event["kind"] == "round":
            ended.append(time.process_time())

    run_inprocess(to_run_config(config), note)
    return median([after - before for before, after in pairwise(ended)][-ROUNDS + 1 : -1])


def compare(folder: Path, envs: int) -> tuple[float, float, float]:
    """Ratio of medians, and milliseconds of a gradient step of FedRL and of DQN-full."""
    fedrl, dqn = [], []
    for repeat in range(REPEATS):
        dqn.append(seconds(settings(folder, "dqn-full", repeat, envs)))
        fedrl.append(seconds(settings(folder, "fedrl", repeat, envs)))
        print(
            f"K = {envs}: {1e3 * fedrl[-1] / STEPS:.2f} ms a step FedRL, {1e3 * dqn[-1] / STEPS:.2f} DQN-full"
        )
    return median(fedrl) / median(dqn), 1e3 * median(fedrl) / STEPS, 1e3 * median(dqn) / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--literal", action="store_true", help="also K = 1")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare_world(settings(folder, "dqn-full", 0, 16), silent)
        ratio, fedrl_ms, dqn_ms = compare(folder, 16)
        details = {"fedrl_ms": round(fedrl_ms, 2), "dqn_full_ms": round(dqn_ms, 2)}
        if arguments.literal:
            literal = compare(folder, 1)
            details |= {"literal_ratio": round(literal[0], 2), "literal_ms": round(literal[1], 2)}
        finish("fedrl_vs_dqn", ratio, GOAL, **details)


if __name__ == "__main__":
    main()
