"""A party of FedRL that has no rewards: beta in Zhuo et al. (2019), algorithm 2.

It sees its own side of the world, keeps records of it under running numbers, and has a Q-network of its own. What
it gives away is noised Q-values and the shared MLP; what it gets is joint actions, record numbers, the
others' noised Q-values C, targets Y and the shared MLP. Weights, observations and replay stay here.

Letters: K envs, U minibatches in an exchange, B records in a minibatch, A joint actions, P parties.
Q_i(s) is clipped (if asked) and noised before it leaves: Q^ = clip(Q) + N(0, sigma^2 I).
Joint network: Q_f = MLP([Q^_alpha | Q^_beta | ...]); loss of every party: sum (Y - Q_f(s, a))^2, in which the
others' outputs are constants. The same noise enters a party's own step and what it sends of that minibatch.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch

from fedsuite.arrays import Arrays, load_arrays, module_arrays, under_prefix, with_prefix
from fedsuite.averaging.optimizer_state import load_optimizer_arrays, optimizer_arrays
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.networks import new_mlp
from fedsuite.fedrl.learning.noise import PartyNoise
from fedsuite.fedrl.learning.own_noise import OwnNoise
from fedsuite.fedrl.learning.replay import Memory
from fedsuite.fedrl.learning.schedule import Schedule
from fedsuite.fedrl.learning.testing import PartyTest, TestPlan
from fedsuite.fedrl.worlds import Role, Side, World
from fedsuite.privacy.gaussian import clip_rows
from fedsuite.randomness import rng_for, torch_generator_for

NETWORK, TARGET, OPTIMIZER, VIEW, BEST, MEMORY, MLP = (
    "network.", "target.", "optimizer.", "view.", "best.", "memory.", "mlp.",
)  # fmt: skip
FROZEN_IN_DQN_FULL = "convolutions.1."


class Party:
    """One party's whole state: networks, optimizer, replay, and its view of the episodes in progress."""

    rewarded = False  # whether its tests have rewards

    def __init__(
        self,
        config: FedRLConfig,
        world: World,
        role: Role,
        partition: int,
        device: str,
        own_noise: OwnNoise | None = None,
    ) -> None:
        self.config, self.world, self.role, self.partition = config, world, role, partition
        self.device, self.rules, self.schedule = device, config.published.rules, Schedule(config)
        self.num_parties = len(config.federation.roles)
        self._published_targets = self.rules.target_refresh == "published"
        # The published code never refreshes the targets of a federation.
        self._targets_stay = self._published_targets and self.num_parties > 1
        self._noise = PartyNoise(config, partition, own_noise)
        self.network = self._new_network("network")
        # Drawing weights anew takes several times as long as copying them.
        frozen = self._targets_stay
        self.target = self._new_network("frozen-target") if frozen else deepcopy(self.network)
        self.mlp = self._new_mlp("mlp") if self.num_parties > 1 else None
        # With torch's constants, which are also TensorFlow's.
        self.weights, rate = list(self._trained().values()), config.learning.learning_rate
        self.optimizer = torch.optim.Adam(self.weights, rate, fused=True)
        self.view = world.view(role, "train", self.schedule.envs)
        self.sides: list[Side] = [self.view]
        self.memory = Memory(config.learning.memory, self._remembered())
        self.best: Arrays = {}
        self.answered: np.ndarray | None = None  # ids [U, B] whose gradient steps are still to come
        self.test: PartyTest | None = None
        self.tested = self.network
        self.start()

    # --- the world -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin the first episodes."""
        self.begin(np.arange(self.schedule.envs))

    def begin(self, episodes: np.ndarray) -> None:
        """Start episodes [K] (running numbers; negative: the env goes on as it is)."""
        (envs,) = np.nonzero(episodes >= 0)
        rows = episodes[envs] % self.world.num_episodes("train")
        for side in self.sides:
            side.begin(envs, rows)

    def _remembered(self) -> Arrays:
        """What the memory holds of a step: the view's record before and after it, the joint action."""
        record = self.view.records()[0]
        return {"before": record, "after": record, "actions": np.array(0, np.int64)}

    def follow(self, actions: np.ndarray, episodes: np.ndarray, **seen: np.ndarray) -> np.ndarray:
        """Carry out joint actions [K], store them with what was seen, start new episodes; the records' ids [K]."""
        before, after = self.view.move(actions)
        ids = self.memory.store(before=before, after=after, actions=actions, **seen)
        self.begin(episodes)
        return ids

    def propose(self, exchange: int) -> np.ndarray:
        """Q^ of what is seen now [K, A]."""
        return self._noise.on_proposal(exchange, self._q(self.network, self.view.records()))

    # --- algorithm 2 -----------------------------------------------------------------------------

    def answer(
        self, exchange: int, actions: np.ndarray, episodes: np.ndarray, ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """ComputeQBeta(j): Q^ of records ids [U, B] before and after their step, from network and target; [U, B, A]."""
        self.refresh_targets(exchange)
        self.follow(actions, episodes)
        before, after = self.memory.gather(ids.ravel(), "before", "after")
        shape = (*ids.shape, self.world.num_actions)
        q, q_next = self._q(self.network, before), self._q(self.target, after)
        self._noise.once(f"minibatches {exchange}", np.stack([q, q_next]))
        noises = self.noise(exchange, "before"), self.noise(exchange, "after")
        return q.reshape(shape) + noises[0], q_next.reshape(shape) + noises[1]

    def learn(
        self,
        exchange: int,
        ids: np.ndarray,
        targets: np.ndarray,
        others: Sequence[np.ndarray],
        mlp: Mapping[str, np.ndarray],
    ) -> Arrays:
        """UpdateQ(Y, j, C, MLP): one gradient step per minibatch; the MLP, updated if parties take turns.

        ids, targets [U, B]; others: noised Q-values [U, B, A] of all parties but this one, in party order.
        """
        assert self.mlp is not None
        load_arrays(self.mlp, mlp)
        alternating = self.rules.mlp_updates == "alternating"
        self.mlp.requires_grad_(alternating)
        given = (self.noise(exchange, "before"), targets, *others)
        noise, wanted, *constants = (torch.from_numpy(x).to(self.device) for x in given)
        before, actions = self.memory.gather(ids, "before", "actions")
        for u in range(len(ids)):
            blocks = [c[u] for c in constants]
            blocks.insert(self.partition, self.q_values(self.network, before[u]) + noise[u])
            self.descend(self.mlp(*blocks), actions[u], wanted[u])
        return module_arrays(self.mlp)

    def descend(
        self, outputs: torch.Tensor, actions: np.ndarray, targets: torch.Tensor
    ) -> torch.Tensor:
        """One gradient step on sum (Y - Q_f(s, a))^2; outputs [B, A], actions [B], targets [B]. The loss, detached."""
        taken = torch.from_numpy(actions).to(self.device)[:, None]
        loss = (outputs.gather(1, taken)[:, 0] - targets).square().sum()
        for weight in self.weights:  # quicker than the optimizer's zero_grad()
            weight.grad = None
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def refresh_targets(self, exchange: int) -> None:
        """Take over the online weights where the schedule says so, but for what the published code never refreshes."""
        if self._targets_stay or not self.schedule.refreshes_targets(exchange):
            return
        source = self.network.state_dict()
        with torch.no_grad():
            for name, tensor in self.target.state_dict().items():
                if not (self._published_targets and name.startswith(FROZEN_IN_DQN_FULL)):
                    tensor.copy_(source[name])

    # --- tests -----------------------------------------------------------------------------------

    def begin_test(self, plan: TestPlan) -> None:
        """Get ready for a test; the weights are kept apart from those in training."""
        self.test = PartyTest(plan, self.config, self.world, self.role, rewarded=self.rewarded)
        self.tested = self.network
        if plan.best:
            self.tested = deepcopy(self.network)
            load_arrays(self.tested, self.best)

    def look(self) -> np.ndarray:
        """Q^ of every env of the test [envs, A], zeros where the episode is over."""
        test = self._running_test()
        q = self._q(self.tested, test.view.records()[test.active])
        if test.plan.noisy:
            q = self._noise.on_test(test.plan.number, test.tick, q)
        return test.spread(q)

    def _running_test(self) -> PartyTest:
        if self.test is None:
            raise ValueError(f"{self.role}: asked to look, but no test has begun")
        return self.test

    def keep_as_best(self) -> None:
        """Remember the present weights as those of the best round."""
        self.best = module_arrays(self.network)

    # --- state -----------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """Everything, but for a test in progress: what `restore` needs to go on byte for byte."""
        parts = {prefix: module_arrays(module) for prefix, module in self._modules().items()}
        parts[OPTIMIZER] = optimizer_arrays(self.optimizer, list(self._trained()))
        parts |= {VIEW: self.view.state(), MEMORY: self.memory.state(), BEST: self.best}
        return {k: v for prefix, a in parts.items() for k, v in with_prefix(a, prefix).items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        for prefix, module in self._modules().items():
            load_arrays(module, under_prefix(state, prefix))
        moments = under_prefix(state, OPTIMIZER)
        load_optimizer_arrays(self.optimizer, list(self._trained()), moments)
        self.view.restore(under_prefix(state, VIEW))
        self.memory.restore(under_prefix(state, MEMORY))
        self.best = under_prefix(state, BEST)
        self.test = self.answered = None

    def _modules(self) -> dict[str, torch.nn.Module]:
        """All networks, by the prefix of their arrays."""
        shared = {} if self.mlp is None else {MLP: self.mlp}
        return {NETWORK: self.network, TARGET: self.target, **shared}

    def _trained(self) -> dict[str, torch.nn.Parameter]:
        """What the optimizer moves, by name."""
        modules = {k: m for k, m in self._modules().items() if k in (NETWORK, MLP)}
        return {k + n: p for k, m in modules.items() for n, p in m.named_parameters()}

    # --- pieces ----------------------------------------------------------------------------------

    def q_values(self, network: torch.nn.Module, records: np.ndarray) -> torch.Tensor:
        """Clipped Q-values of records [n, R]: [n, A], without noise, with gradient."""
        inputs = (x.to(self.device) for x in self.view.inputs(records))
        q: torch.Tensor = clip_rows(network(*inputs), self.config.privacy.q_clip)
        return q

    def _q(self, network: torch.nn.Module, records: np.ndarray) -> np.ndarray:
        if not len(records):
            return np.zeros((0, self.world.num_actions), np.float32)
        with torch.no_grad():
            return self.q_values(network, records).cpu().numpy()

    def noise(self, exchange: int, of: str) -> np.ndarray:
        """Noise on this exchange's minibatches [U, B, A], "before" or "after" their steps."""
        shape = (self.config.learning.batch_size, self.world.num_actions)
        return self._noise.of_minibatches(exchange, of, shape)

    def _stream(self, purpose: str, exchange: int) -> np.random.Generator:
        return rng_for(self.config.seed, purpose, exchange, self.partition)

    def _new_network(self, purpose: str) -> torch.nn.Module:
        generator = torch_generator_for(self.config.seed, f"{purpose}-{self.role}")
        return self.world.network(self.role, generator).to(self.device)

    def _new_mlp(self, purpose: str) -> torch.nn.Module:
        return new_mlp(self.config, self.world.num_actions, purpose).to(self.device)
