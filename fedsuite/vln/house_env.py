"""A house for Gymnasium: follow an instruction from panorama to panorama (Anderson et al. 2018, Room-to-Room).

Observation  Dict. "instruction", Box(int64, (L,)): words of the run's vocabulary, 0 behind the last one.
             "panorama", Box(float32, (36, F)): features of the views; "panorama-angles", Box(-1, 1, (36, 4), float32): their
             directions to the camera as [sin h, cos h, sin e, cos e].
             "candidates", Box(float32, (K, F)): features of the view that looks closest at each neighbour, in the order of
             actions; "candidate-angles", Box(-1, 1, (K, 4), float32). Zeros where there are fewer neighbours.
             "action-mask", Box(0, 1, (K + 1,), int8): 1 for what can be done.
Action       Discrete(K + 1): 0 stops, k goes to neighbour k - 1. One that is not there leaves the agent where it is.
Reward       of a move the sign of how much nearer the goal is; of a stop 2 within 3 m of the goal, else -2 (EnvDrop's).
             Where a path is followed place by place (R4R), its next place and the length behind that take the goal's part.
Start        a random instruction of the split, or options={"instruction": its id}.
End          terminated: the agent stopped. truncated: agent.max-actions decisions without a stop.
info         instruction (text), instruction-id, house, viewpoint, distance-m to the goal, teacher (action of the shortest
             way) and, after a stop, success.

K: neighbours of the busiest panorama; F: data.generated-feature-size, or that of the features given.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from fedsuite.errors import suggestion
from fedsuite.settings.config import flatten
from fedsuite.vln.data.dataset import Sample, join_houses, make_episodes
from fedsuite.vln.data.graph import HEADINGS, NUM_VIEWS
from fedsuite.vln.data.torch_instructions import Instructions
from fedsuite.vln.environment import STOP, pursuit
from fedsuite.vln.training.decisions import SUCCESS_RADIUS_M, rewards

# As few houses as there can be; a run's own settings have more.
FEW: Mapping[str, object] = {"data.generated-seen-houses": 1, "data.generated-unseen-houses": 1}
Observation = dict[str, np.ndarray]


class HouseEnv(gymnasium.Env[Observation, np.int64]):
    """One house, one walk at a time; see the top of this file."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, config: Mapping[str, object] | None = None, house: str = "", split: str = "train"
    ) -> None:
        """config: keys of a FedVLN run, dotted or nested; without data.dir one seen and one unseen house are generated.

        house: a scan, the split's first where it is empty; split: "train", "val_seen" or "val_unseen". InputError for
        unknown keys and values, and for a house without instructions of the split.
        """
        opened = Instructions({**FEW, **flatten(config or {}, "config")}, split, house)
        self.house, read = next(iter(opened.houses.values())), opened.config
        self.samples, self.world = self.house.samples[split], join_houses([self.house])
        self._longest, self._most = read.data.max_instruction_length, read.agent.max_actions
        self._slots = self.world.candidate.shape[1]
        self.action_space = spaces.Discrete(self._slots + 1)
        self.observation_space = self._space(len(opened.vocabulary.words))
        self._sample: Sample | None = None

    def _space(self, words: int) -> spaces.Space[Any]:
        views, slots = self.world.views, self._slots
        included = torch.from_numpy(self.house.graph.included)
        low, high = min(float(views[included].min()), 0.0), float(views[included].max())
        return spaces.Dict({
            "instruction": spaces.Box(0, words - 1, (self._longest,), np.int64),
            "panorama": spaces.Box(low, high, (NUM_VIEWS, self.world.feature_size), np.float32),
            "panorama-angles": spaces.Box(-1, 1, (NUM_VIEWS, 4), np.float32),
            "candidates": spaces.Box(low, high, (slots, self.world.feature_size), np.float32),
            "candidate-angles": spaces.Box(-1, 1, (slots, 4), np.float32),
            "action-mask": spaces.Box(0, 1, (slots + 1,), np.int8),
        })  # fmt: skip

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new walk; options={"instruction": id} chooses it."""
        super().reset(seed=seed)
        wanted = (options or {}).get("instruction")
        if wanted is None:
            self._sample = self.samples[int(self.np_random.integers(len(self.samples)))]
        else:
            by_id = {s.instr_id: s for s in self.samples}
            if wanted not in by_id:
                raise ValueError(
                    f"instruction: {wanted!r} is unknown; {suggestion(str(wanted), by_id)}"
                )
            self._sample = by_id[wanted]
        self._viewpoint = torch.tensor([self._sample.path[0]])
        self._view = torch.tensor([self._sample.start_view])
        self._goal = torch.tensor([self._sample.path[-1]])
        way = make_episodes([self._sample], self.world).via
        self._pursuit = pursuit(self.world, way)
        self._taken = 0
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated, info."""
        if not self.action_space.contains(action):
            raise ValueError(f"action: expected 0 to {self._slots}, got {action}")
        before, chosen = self._viewpoint, torch.tensor([int(action)])
        if int(action) <= int(self.world.candidate_count[before]):
            self._viewpoint, self._view = self.world.step(before, self._view, chosen)
        ahead, places = self._pursuit, (before, self._viewpoint)
        reward = float(rewards(self.world, *places, chosen, ahead.aim, ahead.rest_m)[0])
        self._pursuit = ahead.moved(self._viewpoint)
        self._taken += 1
        stopped, info = int(action) == STOP, self._info()
        if stopped:
            info["success"] = info["distance-m"] < SUCCESS_RADIUS_M
        return self._observe(), reward, stopped, not stopped and self._taken >= self._most, info

    def _observe(self) -> Observation:
        assert self._sample is not None
        world, here = self.world, int(self._viewpoint)
        around = world.observe(self._viewpoint, self._view)
        count, views = int(around.count), world.views[here].numpy()
        tokens = np.zeros(self._longest, np.int64)
        tokens[: len(self._sample.tokens)] = self._sample.tokens
        candidates = np.zeros((self._slots, world.feature_size), np.float32)
        candidates[:count] = views[around.view[0, :count].numpy()]
        angles = np.zeros((self._slots, 4), np.float32)
        angles[:count] = around.angle[0, :count].numpy()
        return {
            "instruction": tokens,
            "panorama": views.copy(),
            "panorama-angles": world.panorama_angle[int(self._view) % HEADINGS].numpy().copy(),
            "candidates": candidates,
            "candidate-angles": angles,
            "action-mask": (np.arange(self._slots + 1) <= count).astype(np.int8),
        }

    def _info(self) -> dict[str, Any]:
        assert self._sample is not None
        here, graph = int(self._viewpoint), self.house.graph
        return {
            "instruction": self._sample.text,
            "instruction-id": self._sample.instr_id,
            "house": graph.scan,
            "viewpoint": graph.viewpoint_ids[here],
            "distance-m": float(self.world.goal_distance_m(self._viewpoint, self._goal)),
            "teacher": int(self.world.teacher_action(self._viewpoint, self._pursuit.aim)),
        }
