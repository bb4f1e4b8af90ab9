"""The party that has rewards: alpha in Zhuo et al. (2019), algorithm 1, and the learner of every baseline.

It chooses the joint action, keeps rewards, samples record numbers, makes the targets

    Y_j = r_j                                               if record j is terminal
    Y_j = r_j + gamma max_a MLP'([Q^'_alpha | Q^'_beta])    else, at the state after record j,

(primes: target networks; the paper prints the state before, its code takes the one after), and steps first.
Without partners Q_f is its own Q and what remains is DQN (fedsuite/fedrl/learning/single_party.py).
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch

from fedsuite.arrays import Arrays, load_arrays, module_arrays, under_prefix, with_prefix
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.worlds import IDLE

TALLY = ("steps", "reward", "episodes", "updates", "loss")
CONTINUES = -1
REWARD, TARGET_MLP = "reward.", "target-mlp."


class RewardedParty(Party):
    """Alpha, or a learner on its own. `tally`: sums since the last report, in the order of TALLY."""

    rewarded = True
    target_mlp: torch.nn.Module | None = None

    def start(self) -> None:
        """With the reward function; the networks are made."""
        self.next_episode = self.schedule.envs
        self.reward_function = self.world.reward_function("train", self.schedule.envs)
        self.sides.append(self.reward_function)
        super().start()
        if self.mlp is not None:
            frozen = self._published_targets
            self.target_mlp = self._new_mlp("frozen-mlp") if frozen else deepcopy(self.mlp)
        self.tally = dict.fromkeys(TALLY, 0.0)

    # --- algorithm 1 -----------------------------------------------------------------------------

    def act(
        self, exchange: int, proposals: Sequence[np.ndarray], mlp: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Joint actions [K] by epsilon-greedy on Q_f; then store, and sample.

        proposals: the partners' Q^ of what they see now [K, A]. Returns actions [K]; numbers of the
        episodes that begin [K] (negative: the env's episode continues); ids of the minibatches [U, B].
        """
        if self.mlp is not None:
            load_arrays(self.mlp, mlp)
        self.refresh_targets(exchange)
        joint = self.joint([self.propose(exchange), *proposals])
        actions = self._explored(exchange, joint.argmax(axis=1))
        step = self.reward_function.step(actions)
        episodes = np.full(len(actions), CONTINUES, np.int64)
        (ended,) = np.nonzero(step.ended)
        episodes[ended] = self.next_episode + np.arange(len(ended))
        self.next_episode += len(ended)
        self.follow(actions, episodes, rewards=step.rewards, terminals=step.terminal)
        self.count(steps=len(actions), reward=float(step.rewards.sum()), episodes=len(ended))
        return actions, episodes, self._sample(exchange)

    def _remembered(self) -> Arrays:
        own = {"rewards": np.array(0, np.float32), "terminals": np.array(False)}
        return super()._remembered() | own

    def learn_first(
        self,
        exchange: int,
        ids: np.ndarray,
        q: Sequence[np.ndarray],
        q_next: Sequence[np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """One gradient step per minibatch; targets Y [U, B] and own Q^ [U, B, A], as they go to the partners.

        ids [U, B]; q, q_next: the partners' Q^ before and after the records' steps [U, B, A].
        Alternating updates send the Q^ of the updated network, joint ones those of the step itself.
        """
        targets = self._targets(exchange, ids, q_next)
        noise = self.noise(exchange, "before")
        given = (targets, noise, *q)
        wanted, own_noise, *blocks = (torch.from_numpy(x).to(self.device) for x in given)
        before, actions = self.memory.gather(ids, "before", "actions")
        shown, losses = [], []
        for u in range(len(ids)):
            own = self.q_values(self.network, before[u]) + own_noise[u]
            shown.append(own.detach())
            outputs = own if self.mlp is None else self.mlp(own, *(block[u] for block in blocks))
            losses.append(self.descend(outputs, actions[u], wanted[u]))
        for loss in torch.stack(losses).tolist():
            self.count(updates=1, loss=loss / ids.shape[1])
        if self.mlp is not None and self.rules.mlp_updates == "alternating":
            fresh = self._q(self.network, before.reshape(-1, before.shape[-1]))
            block = fresh.reshape(*ids.shape, -1) + noise
        else:
            block = torch.stack(shown).cpu().numpy()
        self._noise.once(f"minibatches {exchange}", block)
        return targets, block

    def _targets(self, exchange: int, ids: np.ndarray, q_next: Sequence[np.ndarray]) -> np.ndarray:
        """Y [U, B] float32."""
        after, rewards, terminal = self.memory.gather(ids.ravel(), "after", "rewards", "terminals")
        shape = (*ids.shape, self.world.num_actions)
        own = self._q(self.target, after).reshape(shape) + self.noise(exchange, "after")
        self._noise.once(f"targets {exchange}", own)
        best = self.joint([own, *q_next], target=True).max(axis=-1).ravel()
        targets = rewards + self.config.learning.discount * np.where(terminal, np.float32(0), best)
        return targets.reshape(ids.shape).astype(np.float32)

    def joint(self, q: Sequence[np.ndarray], target: bool = False) -> np.ndarray:
        """Q_f of all parties' Q^ [..., A] in party order; own first."""
        mlp = self.target_mlp if target else self.mlp
        if mlp is None:
            return q[0]
        with torch.no_grad():
            blocks = [torch.from_numpy(block).to(self.device) for block in q]
            outputs: torch.Tensor = mlp(*blocks)
        return outputs.cpu().numpy()

    def refresh_targets(self, exchange: int) -> None:
        super().refresh_targets(exchange)
        due = self.schedule.refreshes_targets(exchange) and not self._published_targets
        if due and self.mlp is not None and self.target_mlp is not None:
            load_arrays(self.target_mlp, module_arrays(self.mlp))

    # --- tests -----------------------------------------------------------------------------------

    def choose(self, q: Sequence[np.ndarray], mlp: Mapping[str, np.ndarray]) -> np.ndarray:
        """Greedy joint actions [envs] on Q_f, IDLE where the episode is over; they are carried out here too.

        q: the partners' Q^ [envs, A]; mlp: the shared MLP to test.
        """
        test = self._running_test()
        if self.mlp is not None:
            load_arrays(self.mlp, mlp)
        actions = np.where(test.active, self._tested_actions(q), IDLE)
        test.advance(actions)
        return actions

    def _tested_actions(self, q: Sequence[np.ndarray]) -> np.ndarray:
        test = self._running_test()
        if self.config.federation.method == "random":
            stream = self._stream(f"random-policy-{test.plan.number}", test.tick)
            return stream.integers(self.world.num_actions, size=len(test.active))
        if self.config.federation.method == "oracle":
            return self.world.expert(test.plan.split, test.episodes, test.tick)
        return self.joint([self.look(), *q]).argmax(axis=1)

    def scores(self) -> dict[str, float]:
        """The reward function's metrics of a test that is over."""
        test = self._running_test()
        if test.active.any():
            raise ValueError(f"{self.role}: {int(test.active.sum())} episodes of the test go on")
        assert test.reward_function is not None
        self.test = None
        return test.reward_function.scores()

    # --- state -----------------------------------------------------------------------------------

    def state(self) -> Arrays:
        return (
            super().state()
            | with_prefix(self.reward_function.state(), REWARD)
            | {"next-episode": np.array(self.next_episode)}
            | {"tally": np.array([self.tally[key] for key in TALLY])}
        )

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        self.reward_function.restore(under_prefix(state, REWARD))
        self.next_episode = int(state["next-episode"])
        self.tally = dict(zip(TALLY, map(float, state["tally"]), strict=True))

    def _modules(self) -> dict[str, torch.nn.Module]:
        target = {} if self.target_mlp is None else {TARGET_MLP: self.target_mlp}
        return super()._modules() | target

    # --- pieces ----------------------------------------------------------------------------------

    def _sample(self, exchange: int) -> np.ndarray:
        stream, count = self._stream("minibatches", exchange), self.schedule.updates(exchange)
        learning, strict = self.config.learning, self.config.world.kind == "text2action"
        return self.memory.sample(stream, count, learning.batch_size, learning.reward_quota, strict)

    def _explored(self, exchange: int, actions: np.ndarray) -> np.ndarray:
        rng = self._stream("exploration", exchange)
        random = rng.integers(self.world.num_actions, size=len(actions))
        explores = rng.random(len(actions)) < self.schedule.epsilon(exchange)
        return np.where(explores, random, actions)

    def count(self, **sums: float) -> None:
        for key, value in sums.items():
            self.tally[key] += value

    def shared_mlp(self) -> Arrays:
        return {} if self.mlp is None else module_arrays(self.mlp)

    def report(self) -> dict[str, float]:
        """Means since the last report: reward a step, loss a record; counts of episodes and gradient steps.

        train.loss-limit: the squared error between two returns of the rewards in replay is at most (2 R / (1 - gamma))^2.
        """
        t = self.tally
        self.tally = dict.fromkeys(TALLY, 0.0)
        found = {"train.steps": t["steps"], "train.episodes": t["episodes"]}
        if t["steps"]:
            found["train.reward"] = t["reward"] / t["steps"]
        if t["updates"]:
            found["train.loss"] = t["loss"] / t["updates"]
        if t["updates"] and len(self.memory):
            returns = self.memory.largest("rewards") / (1 - self.config.learning.discount)
            found["train.loss-limit"] = (2 * returns) ** 2
        return found | {"train.updates": t["updates"]}
