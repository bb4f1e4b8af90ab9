"""Slow twins of FedRL, written from the paper (Zhuo et al. 2019) without the parties, the relay, replay or schedule.

`Stage` plays the episodes: what every party sees and what the reward function says, record after record in plain
lists. On it: `dqn`, a textbook DQN; `monolith`, all networks in one module under one optimiser, trained by ordinary
back-propagation; `two_algorithms`, the paper's algorithms 1 and 2 with separate modules and separate optimisers.
All draw from the named random streams, for two draws from different streams cannot be compared.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from fedsuite.arrays import Arrays, module_arrays
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.open_world import open_world
from fedsuite.fedrl.worlds import Role
from fedsuite.randomness import rng_for, torch_generator_for

ADAM = {"betas": (0.9, 0.999), "eps": 1e-8}
Pair = tuple[np.ndarray, np.ndarray]


def ticks(first: int, last: int, every: int) -> int:
    """How many of the steps first + 1 .. last are multiples of `every`, by counting."""
    return sum(step % every == 0 for step in range(first + 1, last + 1))


class Stage:
    """K parallel episodes. seen[p][j]: record j as party p has it, before and after; told[j]: action, reward, terminal."""

    def __init__(self, config: FedRLConfig) -> None:
        self.c, self.world, self.envs = (
            config,
            open_world(config),
            config.federation.parallel_episodes,
        )
        self.views = [self.world.view(r, "train", self.envs) for r in config.federation.roles]  # type: ignore[arg-type]
        self.reward_function = self.world.reward_function("train", self.envs)
        self.seen: list[list[Pair]] = [[] for _ in config.federation.roles]
        self.told: list[tuple[int, float, bool]] = []
        self.actions: list[list[int]] = []
        self.next_episode = 0
        for env in range(self.envs):
            self._begin(env)

    def _begin(self, env: int) -> None:
        row = np.array([self.next_episode % self.world.num_episodes("train")])
        self.reward_function.begin(np.array([env]), row)
        for view in self.views:
            view.begin(np.array([env]), row)
        self.next_episode += 1

    def step(self, actions: np.ndarray) -> None:
        """All envs one step."""
        self.actions.append(actions.tolist())
        said = self.reward_function.step(actions)
        for party, view in enumerate(self.views):
            before, after = view.move(actions)
            self.seen[party] += list(zip(before.copy(), after.copy(), strict=True))
        for env in range(self.envs):
            self.told.append(
                (int(actions[env]), float(said.rewards[env]), bool(said.terminal[env]))
            )
            if said.ended[env]:
                self._begin(env)

    def epsilon(self) -> float:
        """Exploration after the steps that were made."""
        left = max(0.0, 1 - len(self.told) / self.c.learning.epsilon_steps)
        return self.c.learning.epsilon_last + left * (1 - self.c.learning.epsilon_last)

    def explored(self, exchange: int, greedy: np.ndarray) -> np.ndarray:
        """Epsilon-greedy."""
        rng = rng_for(self.c.seed, "exploration", exchange, 0)
        random = rng.integers(self.world.num_actions, size=self.envs)
        coins = rng.random(self.envs)
        rows = zip(greedy, random, coins, strict=True)
        return np.array([r if coin < self.epsilon() else g for g, r, coin in rows])

    def sample(self, exchange: int) -> np.ndarray:
        """Minibatches of record numbers [U, B], uniform over the records held; [0, B] while there are too few."""
        c, count = self.c, len(self.told)
        learns = count > c.learning.batch_size + c.world.history
        updates = ticks(count - self.envs, count, c.learning.steps_per_update) if learns else 0
        held = min(count, c.learning.memory)
        rng = rng_for(c.seed, "minibatches", exchange, 0)
        return count - held + rng.integers(held, size=(updates, c.learning.batch_size))

    def refreshes(self, exchange: int) -> bool:
        """Whether a multiple of target-every has been passed since the last exchange."""
        done = len(self.told)
        return exchange > 0 and ticks(done - self.envs, done, self.c.learning.target_every) > 0

    def inputs(self, party: int, ids: np.ndarray, after: bool) -> tuple[Tensor, ...]:
        """A party's network inputs of records ids [B]."""
        rows = np.stack([self.seen[party][j][int(after)] for j in ids])
        return self.views[party].inputs(rows)

    def now(self, party: int) -> tuple[Tensor, ...]:
        """A party's network inputs of what it sees now."""
        return self.views[party].inputs(self.views[party].records())

    def taken(self, ids: np.ndarray) -> Tensor:
        return torch.tensor([self.told[j][0] for j in ids])

    def targets(self, ids: np.ndarray, best_next: Tensor) -> Tensor:
        """Y_j = r_j, plus gamma max Q' unless j is terminal."""
        made = []
        for j, best in zip(ids, best_next.tolist(), strict=True):
            _, reward, terminal = self.told[j]
            made.append(reward if terminal else reward + self.c.learning.discount * best)
        return torch.tensor(made)

    def noise(self, exchange: int, of: str, party: int, shape: Sequence[int]) -> Tensor:
        """N(0, sigma^2)."""
        c = self.c
        rng = rng_for(c.seed, f"noise-{of}", exchange, party)
        return (
            torch.from_numpy(rng.standard_normal(tuple(shape), np.float32)) * c.privacy.noise_sigma
        )

    def noisy(self, exchange: int, updates: int) -> list[bool]:
        """The public coin."""
        coins = rng_for(self.c.seed, "noisy-minibatch", exchange).random(updates)
        return [coin < self.c.published.rules.noise_probability for coin in coins]

    def new_network(self, role: str, purpose: str = "network") -> nn.Module:
        generator = torch_generator_for(self.c.seed, f"{purpose}-{role}")
        role_: Role = role  # type: ignore[assignment]
        return self.world.network(role_, generator)

    def new_mlp(self, purpose: str = "mlp") -> nn.Sequential:
        """The shared MLP made of plain layers; numbers drawn as every party draws them."""
        actions, parties = self.world.num_actions, len(self.c.federation.roles)
        units = self.c.network.mlp_hidden or 2 * actions
        hidden, output = nn.Linear(parties * actions, units), nn.Linear(units, actions)
        generator = torch_generator_for(self.c.seed, purpose)
        for layer in (hidden, output):
            nn.init.trunc_normal_(layer.weight, 0.0, 0.1, -0.2, 0.2, generator=generator)
            nn.init.constant_(layer.bias, 0.1)
        if self.c.published.rules.mlp_start == "sum":
            _wire_as_sum(hidden, output, actions)
        return nn.Sequential(hidden, nn.ReLU(), output)


def _wire_as_sum(hidden: nn.Linear, output: nn.Linear, actions: int) -> None:
    """Number by number: unit a is z_a = sum_i Q_i(a), unit A + a is -z_a, output a is the one less the other."""
    with torch.no_grad():
        for unit in range(hidden.out_features):
            for a in range(actions):
                output.bias[a] = 0.0
                output.weight[a, unit] = {a: 1.0, actions + a: -1.0}.get(unit, 0.0)
            if unit < 2 * actions:
                hidden.bias[unit] = 0.0
                for place in range(hidden.in_features):
                    own = place % actions == unit % actions
                    hidden.weight[unit, place] = (1.0 if unit < actions else -1.0) * own


def mlp_arrays(mlp: nn.Module) -> Arrays:
    """By the names that the shared MLP has on the wire."""
    names = {"0": "hidden", "2": "output"}
    return {f"{names[k.split('.')[0]]}.{k.split('.')[1]}": v for k, v in module_arrays(mlp).items()}


# --- DQN -------------------------------------------------------------------------------------------


def dqn(
    config: FedRLConfig, exchanges: int, never_refreshed: str = "nothing"
) -> tuple[Stage, nn.Module, nn.Module]:
    """Textbook DQN with uniform replay; the stage, the network and its target."""
    stage = Stage(config)
    network = stage.new_network(config.federation.roles[0])
    target = copy.deepcopy(network)
    adam = torch.optim.Adam(network.parameters(), lr=config.learning.learning_rate)
    for n in range(exchanges):
        if stage.refreshes(n):
            fresh = dict(network.named_parameters())
            for name, parameter in target.named_parameters():
                if not name.startswith(never_refreshed):
                    parameter.data = fresh[name].data.clone()
        with torch.no_grad():
            greedy = network(*stage.now(0)).argmax(1).numpy()
        stage.step(stage.explored(n, greedy))
        for ids in stage.sample(n):
            with torch.no_grad():
                best = target(*stage.inputs(0, ids, True)).max(1).values
            q = network(*stage.inputs(0, ids, False))
            chosen = q[torch.arange(len(ids)), stage.taken(ids)]
            loss = ((stage.targets(ids, best) - chosen) ** 2).sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return stage, network, target


# --- one network -----------------------------------------------------------------------------------


class Whole(nn.Module):
    """All local networks and the MLP in one module; `noise` (a constant for each party) is added in between."""

    def __init__(self, stage: Stage, frozen: bool = False) -> None:
        super().__init__()
        net, mlp = ("frozen-target", "frozen-mlp") if frozen else ("network", "mlp")
        self.locals = nn.ModuleList(stage.new_network(r, net) for r in stage.c.federation.roles)
        self.mlp = stage.new_mlp(mlp)

    def forward(self, inputs: Sequence[tuple[Tensor, ...]], noise: Sequence[Tensor]) -> Tensor:
        parts = [net(*x) + extra for net, x, extra in zip(self.locals, inputs, noise, strict=True)]
        q: Tensor = self.mlp(torch.cat(parts, 1))
        return q


def monolith(config: FedRLConfig, exchanges: int) -> tuple[Stage, Whole, Whole]:
    """One step of Adam on everything at once for each environment step (K = 1); the stage, network, target."""
    assert config.federation.parallel_episodes == 1
    stage = Stage(config)
    parties, num_actions = range(len(config.federation.roles)), stage.world.num_actions
    network = Whole(stage)
    frozen = config.published.rules.target_refresh == "published"
    target = Whole(stage, frozen=True) if frozen else copy.deepcopy(network)
    adam = torch.optim.Adam(network.parameters(), lr=config.learning.learning_rate)

    def noise(of: str, n: int, shape: tuple[int, ...], on: bool = True) -> list[Tensor]:
        return [on * stage.noise(n, of, p, shape).reshape(-1, num_actions) for p in parties]

    for n in range(exchanges):
        if stage.refreshes(n) and not frozen:
            target.load_state_dict(network.state_dict())
        with torch.no_grad():
            q = network([stage.now(p) for p in parties], noise("now", n, (1, num_actions)))
        stage.step(stage.explored(n, q.argmax(1).numpy()))
        ids = stage.sample(n)
        for row, on in zip(ids, stage.noisy(n, len(ids)), strict=True):
            shape = (1, len(row), num_actions)
            with torch.no_grad():
                q_next = target(
                    [stage.inputs(p, row, True) for p in parties], noise("after", n, shape, on)
                )
            q = network(
                [stage.inputs(p, row, False) for p in parties], noise("before", n, shape, on)
            )
            chosen = q[torch.arange(len(row)), stage.taken(row)]
            loss = ((stage.targets(row, q_next.max(1).values) - chosen) ** 2).sum()
            adam.zero_grad()
            loss.backward()
            adam.step()
    return stage, network, target


# --- algorithms 1 and 2 ----------------------------------------------------------------------------


@dataclass
class Side:
    """A party's own things: network, its target, a copy of the MLP, and one Adam over network and MLP."""

    network: nn.Module
    mlp: nn.Sequential
    learning_rate: float
    target: nn.Module = field(init=False)
    adam: torch.optim.Adam = field(init=False)

    def __post_init__(self) -> None:
        self.target = copy.deepcopy(self.network)
        parameters = [*self.network.parameters(), *self.mlp.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=self.learning_rate)

    def step(self, blocks: list[Tensor], taken: Tensor, targets: Tensor) -> None:
        """Minimise (Y - Q_f(s, a))^2; all blocks but the own one are constants."""
        q = self.mlp(torch.cat(blocks, 1))
        loss = ((targets - q[torch.arange(len(q)), taken]) ** 2).sum()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()


def two_algorithms(config: FedRLConfig, exchanges: int) -> tuple[Stage, list[Side], nn.Sequential]:
    """Algorithms 1 and 2 with K envs and minibatches in an exchange; the stage, all sides, the MLP's target."""
    stage = Stage(config)
    parties, num_actions = range(len(config.federation.roles)), stage.world.num_actions
    sides = [
        Side(stage.new_network(r), stage.new_mlp(), config.learning.learning_rate)
        for r in config.federation.roles
    ]
    mlp_target = stage.new_mlp()
    for n in range(exchanges):
        if stage.refreshes(n):
            for side in sides:
                side.target = copy.deepcopy(side.network)
            mlp_target = copy.deepcopy(sides[0].mlp)
        _act(stage, sides, n)
        ids = stage.sample(n)
        shape = (len(ids), config.learning.batch_size, num_actions)
        coin = torch.tensor(stage.noisy(n, len(ids)))[:, None, None]
        before = [stage.noise(n, "before", p, shape) * coin for p in parties]
        after = [stage.noise(n, "after", p, shape) * coin for p in parties]
        if len(ids) == 0:
            continue
        with torch.no_grad():
            # ComputeQBeta(j): what the partners answer before anybody steps; and the targets.
            sent = [_q(stage, s.network, p, ids, False) + before[p] for p, s in enumerate(sides)]
            q_next = [_q(stage, s.target, p, ids, True) + after[p] for p, s in enumerate(sides)]
            best = mlp_target(torch.cat(q_next, 2)).max(2).values
            targets = [stage.targets(row, best[u]) for u, row in enumerate(ids)]
        for p, side in enumerate(sides):  # alpha first, then its partners: UpdateQ
            if p > 0:
                side.mlp.load_state_dict(sides[p - 1].mlp.state_dict())
            for u, row in enumerate(ids):
                own = side.network(*stage.inputs(p, row, False)) + before[p][u]
                blocks = [own if other == p else sent[other][u] for other in parties]
                side.step(blocks, stage.taken(row), targets[u])
            if p == 0:  # C_alpha is of the updated network
                with torch.no_grad():
                    sent[0] = _q(stage, side.network, 0, ids, False) + before[0]
        sides[0].mlp.load_state_dict(sides[-1].mlp.state_dict())
    return stage, sides, mlp_target


def _act(stage: Stage, sides: list[Side], exchange: int) -> None:
    blocks = []
    with torch.no_grad():
        for p, side in enumerate(sides):
            q = side.network(*stage.now(p))
            blocks.append(q + stage.noise(exchange, "now", p, q.shape))
        joint = sides[0].mlp(torch.cat(blocks, 1))
    stage.step(stage.explored(exchange, joint.argmax(1).numpy()))


def _q(stage: Stage, network: nn.Module, party: int, ids: np.ndarray, after: bool) -> Tensor:
    """[U, B, A], minibatch by minibatch."""
    return torch.stack([network(*stage.inputs(party, row, after)) for row in ids])
