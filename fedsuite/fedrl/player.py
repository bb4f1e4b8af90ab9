"""Greedy episodes of a finished FedRL run: what each party sees and says at every step, and what is done (Zhuo et al. 2019).

    player = Player.of_run("runs/fedrl-gridworld-8/fedrl")   # noisy=True: its test with noise on Q-values (FedRL-2)
    episode = player.episode(3)                              # the fourth episode of its test
    scores = player.scores()                                 # of all: the run's own test scores

The parties do exactly what they did in the run's test: all episodes are played side by side, with the same weights and the
same noise, and the one that is asked for is taken out of it.
"""

import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from fedsuite.arrays import Arrays, load_arrays, under_prefix
from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.episode import Episode, Step
from fedsuite.fedrl.gridworld.episode import grid_episode
from fedsuite.fedrl.gridworld.world import GridWorld
from fedsuite.fedrl.learning.party import BEST, MLP, NETWORK, Party
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.learning.testing import TestPlan, num_envs
from fedsuite.fedrl.open_world import open_world
from fedsuite.fedrl.text2action.episode import text_episode
from fedsuite.fedrl.text2action.world import TextWorld
from fedsuite.fedrl.worlds import IDLE, World
from fedsuite.history.finished import closing_metrics, model_of, open_finished
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Versions

BEST_MLP = "best-mlp."


@dataclass(frozen=True, eq=False)
class Played:
    """A test of E episodes, T ticks. q: float32 [T, P, E, A]; joint: [T, E, A]; actions: [T, E], IDLE after an end."""

    q: np.ndarray
    joint: np.ndarray
    actions: np.ndarray
    scores: dict[str, float]


@dataclass(eq=False)
class Player:
    """parties: the rewarded one first; mlp: the shared network's arrays, {} for a party on its own; plan: which test."""

    config: FedRLConfig
    world: World
    parties: list[Party] = field(repr=False)
    mlp: Arrays = field(repr=False)
    plan: TestPlan

    @classmethod
    def of_run(cls, folder: Path | str, noisy: bool | None = None, device: str = "cpu") -> "Player":
        """Parties as the run in `folder` tested them. noisy: its test with or without noise; None: without, if it had one.

        InputError: not a completed FedRL run; a method that learns nothing; a test that the run did not make; parties whose
        networks are not here, as of a run on real nodes.
        """
        run, config = open_finished(folder, FedRLConfig)
        if not config.federation.trains:
            raise InputError(
                f"{folder}: method {config.federation.method} has learnt nothing to be shown; play a run of another method"
            )
        made = {"none": (False,), "noisy": (True,), "both": (False, True)}[
            config.privacy.test_noise
        ]
        noisy = made[0] if noisy is None else noisy
        if noisy not in made:
            raise InputError(
                f"{folder}: has no test {'with' if noisy else 'without'} noise (privacy.test-noise = "
                f"{config.privacy.test_noise}); play the other one"
            )
        best = closing_metrics(run).get("best-round", 0) > 0
        model = model_of(run)
        world = open_world(config)
        parties = [
            _party(run, config, world, p, device, best) for p in range(len(config.federation.roles))
        ]
        plan = TestPlan("test", noisy, best, 4 * config.num_rounds + 1 + noisy)
        return cls(config, world, parties, under_prefix(model, BEST_MLP if best else MLP), plan)

    @property
    def num_episodes(self) -> int:
        """Episodes of the test."""
        return num_envs(self.config, self.world, self.plan.split)

    def scores(self) -> dict[str, float]:
        """Metrics of the whole test."""
        return dict(self._played.scores)

    def episode(self, number: int) -> Episode:
        """Episode `number` of the test, from 0; InputError if there is none."""
        if not 0 <= number < self.num_episodes:
            raise InputError(
                f"--episode: the test has episodes 0 to {self.num_episodes - 1}, got {number}"
            )
        played, row = self._played, number % self.world.num_episodes(self.plan.split)
        (ticks,) = np.nonzero(played.actions[:, number] != IDLE)
        roles = [party.role for party in self.parties]
        judge = self.world.reward_function(self.plan.split, 1)
        judge.begin(np.zeros(1, np.int64), np.array([row]))
        steps = []
        for t in ticks.tolist():
            action = played.actions[t, number]
            reward = float(judge.step(action[None]).rewards[0])
            q = dict(zip(roles, played.q[t, :, number], strict=True))
            steps.append(Step(q, played.joint[t, number], int(action), reward))
        if isinstance(self.world, GridWorld):
            return grid_episode(self.world, number, row, steps, roles, judge.scores())
        assert isinstance(self.world, TextWorld)
        return text_episode(self.world, number, row, steps, judge.scores())

    @cached_property
    def _played(self) -> Played:
        alpha, partners = self.parties[0], self.parties[1:]
        assert isinstance(alpha, RewardedParty)
        if alpha.mlp is not None:
            load_arrays(alpha.mlp, self.mlp)
        for party in self.parties:
            party.begin_test(self.plan)
        said, joint, chosen = [], [], []
        assert alpha.test is not None
        while alpha.test.active.any():
            own, others = alpha.look(), [p.look() for p in partners]
            joint.append(alpha.joint([own, *others]))
            said.append(np.stack([own, *others]))
            chosen.append(alpha.choose(others, self.mlp))
            for partner in partners:
                assert partner.test is not None
                partner.test.advance(chosen[-1])
        return Played(np.stack(said), np.stack(joint), np.stack(chosen), alpha.scores())


def _party(
    run: RunFolder, config: FedRLConfig, world: World, number: int, device: str, best: bool
) -> Party:
    """A party with the networks that it kept at the end of the run."""
    role = config.federation.roles[number]
    folder = run.client(role)
    stored = Versions(folder, role).load(sys.maxsize)
    if stored is None:
        raise InputError(
            f"{folder}: no network of party {role} lies here, as parties of real nodes keep theirs to themselves; "
            "play a run made in simulation"
        )
    kind = RewardedParty if number == 0 else Party
    party = kind(config, world, role, number, device)  # type: ignore[arg-type]
    load_arrays(party.network, under_prefix(stored[0], NETWORK))
    party.best = under_prefix(stored[0], BEST)
    if best and not party.best:
        raise InputError(f"{folder}: holds no network of the best round; put it back from a copy")
    return party
