"""A party of FedRL that has no rewards: beta in Zhuo et al. (2019), algorithm 2.

It sees its own side of the world, keeps records of it under running numbers, and has a Q-network of its own. What
it gives away is noised Q-values and the shared MLP; what it gets is joint actions, record numbers, the
others' noised Q-values C, targets Y and the shared MLP. Weights, observations and replay stay here.

Letters: K lanes, U minibatches in an exchange, B records in a minibatch, A joint actions, P parties.
Q_i(s) is clipped (if asked) and noised before it leaves: Q^ = clip(Q) + N(0, sigma^2 I).
Joint network: Q_f = MLP([Q^_alpha | Q^_beta | ...]); loss of every party: sum (Y - Q_f(s, a))^2, in which the
others' outputs are constants. The same noise enters a party's own step and what it sends of that minibatch.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from fedsuite.arrays import Arrays, load_arrays, module_arrays, under_prefix, with_prefix
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.networks import (
    federated_mlp,
    load_optimizer_arrays,
    optimizer,
    optimizer_arrays,
)
from fedsuite.fedrl.noise import PartyNoise
from fedsuite.fedrl.replay import Memory
from fedsuite.fedrl.schedule import Schedule
from fedsuite.fedrl.testing import PartyTest, TestPlan
from fedsuite.fedrl.worlds import Role, World
from fedsuite.privacy.gaussian import clip_rows
from fedsuite.randomness import rng_for, torch_generator_for

NETWORK, TARGET, OPTIMIZER, VIEW, BEST, MEMORY, MLP = (
    "network.", "target.", "optimizer.", "view.", "best.", "memory.", "mlp.",
)  # fmt: skip
FROZEN_IN_DQN_FULL = "convolutions.1."


class Party:
    """One party's whole state: networks, optimizer, replay, and its view of the episodes in progress."""

    def __init__(
        self,
        config: FedRLConfig,
        world: World,
        role: Role,
        partition: int,
        device: str,
        noise_seed: int | None = None,
    ) -> None:
        self.config, self.world, self.role, self.partition = config, world, role, partition
        self.device, self.rules, self.schedule = device, config.rules, Schedule(config)
        self.num_parties = len(config.roles)
        self._noise = PartyNoise(config, partition, noise_seed)
        self.network = self._new_network("network")
        frozen = self._published_targets and self.num_parties > 1
        self.target = self._new_network("frozen-target" if frozen else "network")
        self.mlp = self._new_mlp("mlp") if self.num_parties > 1 else None
        self.optimizer = optimizer(list(self._trained_parameters()), config.learning_rate)
        self.view = world.view(role, "train", self.schedule.lanes)
        self.memory = Memory(config.memory, self.view.records().shape[1], self.view.records().dtype)
        self.actions = np.zeros(config.memory, np.int16)  # of the record in each slot
        self.best: Arrays = {}
        self.test: PartyTest | None = None
        self.tested = self.network
        self.begin(np.arange(self.schedule.lanes))

    # --- the world -------------------------------------------------------------------------------

    def begin(self, episodes: np.ndarray) -> None:
        """Start episodes [K] (running numbers; negative: the lane goes on as it is)."""
        (lanes,) = np.nonzero(episodes >= 0)
        rows = episodes[lanes] % self.world.num_episodes("train")
        self.view.begin(lanes, rows)

    def follow(self, actions: np.ndarray, episodes: np.ndarray) -> np.ndarray:
        """Carry out joint actions [K], store what was seen, start new episodes; the records' ids [K]."""
        before, after = self.view.move(actions)
        ids = self.memory.store(before, after)
        self.actions[ids % self.config.memory] = actions
        self.begin(episodes)
        return ids

    def propose(self, exchange: int) -> np.ndarray:
        """Q^ of what is seen now [K, A]."""
        q = self._q(self.network, self.view.records())
        if self.config.behaviour_noise:
            q = q + self._noise.draw("now", exchange, q.shape)
        return q

    # --- algorithm 2 -----------------------------------------------------------------------------

    def answer(
        self, exchange: int, actions: np.ndarray, episodes: np.ndarray, ids: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """ComputeQBeta(j): Q^ of records ids [U, B] before and after their step, from network and target; [U, B, A]."""
        self.refresh_targets(exchange)
        self.follow(actions, episodes)
        before, after = self.memory.gather(ids.ravel())
        shape = (*ids.shape, self.world.num_actions)
        q = self._q(self.network, before).reshape(shape) + self.noise(exchange, "before")
        q_next = self._q(self.target, after).reshape(shape) + self.noise(exchange, "after")
        return q, q_next

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
        for p in self.mlp.parameters():
            p.requires_grad_(alternating)
        noise = torch.from_numpy(self.noise(exchange, "before"))
        wanted = torch.from_numpy(targets)
        constants = [torch.from_numpy(c) for c in others]
        for u, row in enumerate(ids):
            before, _ = self.memory.gather(row)
            own = self.q_values(self.network, before) + noise[u].to(self.device)
            blocks = [c[u].to(self.device) for c in constants]
            blocks.insert(self.partition, own)
            self.descend(self.mlp(blocks), self.actions_of(row), wanted[u].to(self.device))
        return module_arrays(self.mlp)

    def descend(
        self, outputs: torch.Tensor, actions: np.ndarray, targets: torch.Tensor
    ) -> torch.Tensor:
        """One gradient step on sum (Y - Q_f(s, a))^2; outputs [B, A], actions [B], targets [B]. The loss, detached."""
        taken = torch.from_numpy(actions.astype(np.int64)).to(self.device)
        error = outputs.gather(1, taken[:, None])[:, 0] - targets
        loss = error.square().sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def refresh_targets(self, exchange: int) -> None:
        """Take over the online weights where the schedule says so, but for what the published code never refreshes."""
        if not self.schedule.refreshes_targets(exchange):
            return
        if self._published_targets and self.num_parties > 1:
            return
        source = self.network.state_dict()
        with torch.no_grad():
            for name, tensor in self.target.state_dict().items():
                if not (self._published_targets and name.startswith(FROZEN_IN_DQN_FULL)):
                    tensor.copy_(source[name])

    # --- tests -----------------------------------------------------------------------------------

    def begin_test(self, plan: TestPlan) -> None:
        """Get ready for a test; the weights are kept apart from those in training."""
        self.test = PartyTest(plan, self.config, self.world, self.role, judged=False)
        self.tested = self._tested_network(plan)

    def look(self) -> np.ndarray:
        """Q^ of every lane of the test [lanes, A], zeros where the episode is over."""
        test = self._running_test()
        q = self._q(self.tested, test.view.records()[test.active])
        if test.plan.noisy:
            q = q + self._noise.in_test(test.plan.number, test.tick, q.shape)
        return test.spread(q)

    def _tested_network(self, plan: TestPlan) -> torch.nn.Module:
        if not plan.best:
            return self.network
        network = self._new_network("network")
        load_arrays(network, self.best)
        return network

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
        mlp = module_arrays(self.mlp) if self.mlp is not None else {}
        return (
            with_prefix(module_arrays(self.network), NETWORK)
            | with_prefix(module_arrays(self.target), TARGET)
            | with_prefix(mlp, MLP)
            | with_prefix(optimizer_arrays(self.optimizer, self._trained_names()), OPTIMIZER)
            | with_prefix(self.view.state(), VIEW)
            | with_prefix(self.memory.state(), MEMORY)
            | with_prefix(self.best, BEST)
            | {"actions": self.actions[: len(self.memory)]}
        )

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from `state`."""
        load_arrays(self.network, under_prefix(state, NETWORK))
        load_arrays(self.target, under_prefix(state, TARGET))
        if self.mlp is not None:
            load_arrays(self.mlp, under_prefix(state, MLP))
        moments = under_prefix(state, OPTIMIZER)
        load_optimizer_arrays(self.optimizer, self._trained_names(), moments)
        self.view.restore(under_prefix(state, VIEW))
        self.memory.restore(under_prefix(state, MEMORY))
        self.best = under_prefix(state, BEST)
        self.actions[: len(state["actions"])] = state["actions"]
        self.test = None

    def _trained_names(self) -> list[str]:
        mlp = [] if self.mlp is None else [MLP + n for n, _ in self.mlp.named_parameters()]
        return [NETWORK + n for n, _ in self.network.named_parameters()] + mlp

    # --- pieces ----------------------------------------------------------------------------------

    @property
    def _published_targets(self) -> bool:
        return self.rules.target_refresh == "published"

    def actions_of(self, ids: np.ndarray) -> np.ndarray:
        """Joint actions taken in records ids, of the same shape."""
        return self.actions[ids % self.config.memory]

    def q_values(self, network: torch.nn.Module, records: np.ndarray) -> torch.Tensor:
        """Clipped Q-values of records [n, R]: [n, A], without noise, with gradient."""
        inputs = (x.to(self.device) for x in self.view.inputs(records))
        q: torch.Tensor = clip_rows(network(*inputs), self.config.q_clip)
        return q

    def _q(self, network: torch.nn.Module, records: np.ndarray) -> np.ndarray:
        if not len(records):
            return np.zeros((0, self.world.num_actions), np.float32)
        with torch.no_grad():
            return self.q_values(network, records).cpu().numpy()

    def noise(self, exchange: int, of: str) -> np.ndarray:
        """Noise on this exchange's minibatches [U, B, A], "before" or "after" their steps."""
        shape = (self.config.batch_size, self.world.num_actions)
        return self._noise.of_minibatches(exchange, of, shape)

    def _stream(self, purpose: str, exchange: int) -> np.random.Generator:
        return rng_for(self.config.seed, purpose, exchange, self.partition)

    def _new_network(self, purpose: str) -> torch.nn.Module:
        generator = torch_generator_for(self.config.seed, f"{purpose}-{self.role}")
        return self.world.network(self.role, generator).to(self.device)

    def _new_mlp(self, purpose: str) -> torch.nn.Module:
        return new_mlp(self.config, self.world.num_actions, purpose).to(self.device)

    def _trained_parameters(self) -> Iterator[torch.nn.Parameter]:
        yield from self.network.parameters()
        if self.mlp is not None:
            yield from self.mlp.parameters()


def new_mlp(config: FedRLConfig, num_actions: int, purpose: str) -> torch.nn.Module:
    """The shared MLP as every party and the server start it ("mlp"), or another draw of it."""
    generator = torch_generator_for(config.seed, purpose)
    return federated_mlp(
        len(config.roles), num_actions, generator, config.mlp_hidden or 2 * num_actions
    )
