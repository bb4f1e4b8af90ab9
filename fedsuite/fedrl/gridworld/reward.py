"""Rewards and ends of Grid-World episodes (Zhuo et al. 2019).

    r = r_alpha + r_beta + N / (d + 1) + meeting * [d <= 1]

r_i: step_reward for a move, obstacle_reward for running into an obstacle; d: distance after the move, |drow| + |dcol|
("manhattan") or, as the published code computes it, |drow + dcol| ("anti-diagonal"). An episode ends when
d <= 1 or after T_m steps; at least one step is always taken. Symbols: E envs; m = path_len div 2, the
least number of steps in which both can meet on the path.
"""

import numpy as np

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.maps import Episodes
from fedsuite.fedrl.gridworld.walkers import Ground, check_actions, walk
from fedsuite.fedrl.metrics import Played, metrics_of
from fedsuite.fedrl.worlds import IDLE, Remembering, Step

WITHIN = (1, 3, 5, 10)


def reward_table(config: FedRLConfig) -> np.ndarray:
    """r by how many of the two moved (0, 1, 2) and by d (0..2N): float32 [3, 2N + 1]."""
    distance = np.arange(2 * config.world.grid_size + 1)
    moved = np.arange(3)[:, None]
    local = moved * config.world.step_reward + (2 - moved) * config.world.obstacle_reward
    shared = config.world.grid_size / (distance + 1) + config.world.meeting_reward * (distance <= 1)
    return (local + shared).astype(np.float32)


class MeetingReward(Remembering):
    """The rewarded party's reward function. It knows both agents' places, hence is stepped with all joint actions."""

    remembered = ("places", "episode", "steps", "reward", "met", "open")

    def __init__(
        self, ground: Ground, played: Episodes, config: FedRLConfig, envs: int, step_limit: int
    ) -> None:
        self.ground, self.step_limit = ground, step_limit
        self.manhattan = config.published.rules.distance == "manhattan"
        self.timeouts_are_terminal = config.published.rules.timeouts == "terminal"
        self.rewards, self.own = reward_table(config), metrics_of(config).computed
        cells = (played.alpha, played.beta)
        self.starts = np.stack([ground.places(played.map_index, c) for c in cells])
        self.optimum = played.path_len // 2
        self.hops = (ground.hops(0), ground.hops(1))
        self._places = np.full((2, envs), ground.nowhere, np.int32)
        self._episode = np.full(envs, -1, np.int64)  # -1: none yet
        self._steps = np.zeros(envs, np.int32)
        self._reward = np.zeros(envs, np.float64)
        self._met = np.zeros(envs, bool)
        self._open = np.zeros(envs, bool)

    def begin(self, envs: np.ndarray, episodes: np.ndarray) -> None:
        self._places[:, envs] = self.starts[:, episodes]
        self._episode[envs] = episodes
        self._steps[envs] = 0
        self._reward[envs] = 0.0
        self._met[envs] = False
        self._open[envs] = True

    def step(self, actions: np.ndarray) -> Step:
        check_actions(actions, len(self._open))
        acts = actions != IDLE
        if (acts & ~self._open).any():
            (envs,) = np.nonzero(acts & ~self._open)
            raise ValueError(f"envs {envs[:5].tolist()}: the episode is over; begin another one")
        alpha, alpha_moved = walk(self.ground, self._places[0], self.hops[0], actions)
        beta, beta_moved = walk(self.ground, self._places[1], self.hops[1], actions)
        self._places = np.stack([alpha, beta])
        distance = self.distance()
        rewards = np.where(acts, self.rewards[alpha_moved + beta_moved, distance], np.float32(0))
        self._steps += acts
        self._reward += rewards
        met = acts & (distance <= 1)
        late = acts & (self._steps >= self.step_limit)
        ended = met | late
        self._met |= met
        self._open &= ~ended
        return Step(rewards, ended, ended if self.timeouts_are_terminal else met)

    def distance(self) -> np.ndarray:
        """d of all envs now, int [E]."""
        rows, columns = self.ground.apart(self._places[0], self._places[1])
        if self.manhattan:
            return np.abs(rows) + np.abs(columns)
        return np.abs(rows + columns)

    @property
    def met(self) -> np.ndarray:
        """Whether the agents of each env have met in its latest episode, bool [E]."""
        return self._met.copy()

    def scores(self) -> dict[str, float]:
        """Metrics over the envs' latest episodes, all of which have ended.

        success-rate: met. average-reward: sum of an episode's rewards. within-kx: met with
        steps - m <= k * m. mean-steps, step-diff = (sum of steps - sum of m) / sum of m: over those that
        met, 0 if there are none.
        """
        begun = self._episode >= 0
        if not begun.any() or (begun & self._open).any():
            raise ValueError(
                f"scores are of episodes that are over; {int(begun.sum())} were begun,"
                f" {int((begun & self._open).sum())} go on"
            )
        steps, met = self._steps[begun].astype(np.int64), self._met[begun]
        best = self.optimum[self._episode[begun]]
        walked, least = int(steps[met].sum()), int(best[met].sum())
        played = Played(self._reward[begun], steps, met, best)
        return {
            "success-rate": float(met.mean()),
            "average-reward": float(self._reward[begun].mean()),
            **{f"within-{k}x": float((met & (steps - best <= k * best)).mean()) for k in WITHIN},
            "mean-steps": walked / int(met.sum()) if met.any() else 0.0,
            "step-diff": (walked - least) / least if least else 0.0,
            **played.means(self.own),
        }
