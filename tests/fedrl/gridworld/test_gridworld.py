"""Grid-World: equal to a plain simulation of one map; random and shortest-path policies; state; expert."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsuite.errors import InputError
from fedsuite.fedrl.checks import validate
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.maps import Episodes, MapSet
from fedsuite.fedrl.gridworld.reward import MeetingReward
from fedsuite.fedrl.gridworld.world import GridWorld, open_gridworld, prepare
from fedsuite.fedrl.worlds import IDLE, Role
from tests.harness import changed

MOVES = [(0, -1), (0, 1), (-1, 0), (1, 0)]
ROLES: tuple[Role, ...] = ("alpha", "beta", "gamma", "full")
ENVS, TICKS = 24, 60


def world_of(cache: Path, **changes: Any) -> GridWorld:
    config = changed(FedRLConfig(), **({"cache_dir": str(cache), "maps": 300} | changes))
    prepare(config)
    return open_gridworld(config)


# --- the plain simulation: one map, one step at a time, (row, col) tuples ---------------------------


@dataclass
class Plain:
    """One episode; frames[0] is the first observation, frames[k] that made after step k."""

    world: GridWorld
    played: Episodes
    row: int
    frames: list[tuple[tuple[int, int], tuple[int, int]]] = field(init=False)
    rewards: list[float] = field(default_factory=list)
    over: bool = False
    met: bool = False

    def __post_init__(self) -> None:
        self.grid = self.world.maps.maps[self.played.map_index[self.row]].tolist()
        ends = (self.played.alpha[self.row], self.played.beta[self.row])
        self.frames = [tuple((int(r), int(c)) for r, c in ends)]

    def step(self, action: int) -> tuple[float, bool, bool]:
        config, places, reward = self.world.config, [], 0.0
        for place, move in zip(self.frames[-1], (action // 4, action % 4), strict=True):
            target = (place[0] + MOVES[move][0], place[1] + MOVES[move][1])
            free = self.grid[target[0]][target[1]] == 1
            places.append(target if free else place)
            reward += config.world.step_reward if free else config.world.obstacle_reward
        (r0, c0), (r1, c1) = places
        rows, columns = r0 - r1, c0 - c1
        manhattan = self.world.rules.distance == "manhattan"
        distance = abs(rows) + abs(columns) if manhattan else abs(rows + columns)
        reward += config.world.grid_size / (distance + 1)
        self.met = distance <= 1
        if self.met:
            reward += config.world.meeting_reward
        self.frames.append((places[0], places[1]))
        self.rewards.append(reward)
        late = len(self.rewards) == self.world.longest
        self.over = self.met or late
        bootstrapped = self.world.rules.timeouts == "bootstrapped"
        return reward, self.over, self.met or (late and not bootstrapped)

    def stack(self, numbers: list[int], role: str) -> list[np.ndarray]:
        """The network's inputs of a history of frames, by number."""
        if role == "full":
            return self.stack(numbers, "alpha") + self.stack(numbers, "beta")
        if role == "gamma":
            return [self.difference(numbers)]
        agent = 0 if role == "alpha" else 1
        side, history = self.world.rules.window_sides[agent], self.world.config.world.history
        stack = np.zeros((history, side, side), np.float32)
        for back, number in enumerate(reversed(numbers)):
            row, col = self.frames[number][agent]
            for i in range(side):
                for j in range(side):
                    r, c = row + i - side // 2, col + j - side // 2
                    if 0 <= r < len(self.grid) and 0 <= c < len(self.grid):
                        stack[history - 1 - back, i, j] = self.grid[r][c]
        return [stack]

    def difference(self, numbers: list[int]) -> np.ndarray:
        size = len(self.grid)
        hot = np.zeros((2, 2 * size - 1), np.float32)
        if numbers:
            (r0, c0), (r1, c1) = self.frames[numbers[-1]]
            hot[0, r0 - r1 + size - 1] = 1
            hot[1, c0 - c1 + size - 1] = 1
        return hot.ravel()

    def live(self, role: str) -> list[np.ndarray]:
        """Inputs of what is observed now."""
        last = len(self.frames) - 1
        return self.stack(
            list(range(max(0, last - self.world.config.world.history + 1), last + 1)), role
        )

    def stored(self, role: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Inputs of what is stored for the latest step, before and after it."""
        k, history = len(self.rewards), self.world.config.world.history
        if self.world.rules.first_frame == "stored":
            before = list(range(max(0, k - history), k))
            after = list(range(max(0, k - history + 1), k + 1))
        else:
            before = list(range(max(1, k - history), k))
            after = list(range(2, k + 1)) if k <= history else list(range(k - history + 1, k + 1))
        return self.stack(before, role), self.stack(after, role)


def assert_equal_inputs(got: tuple[torch.Tensor, ...], want: list[list[np.ndarray]]) -> None:
    for i, part in enumerate(got):
        assert part.dtype == torch.float32
        np.testing.assert_array_equal(part.numpy(), np.stack([w[i] for w in want]))


CASES = [
    {"history": 2, "step_limit": 12},
    {"history": 1, "step_limit": 9, "first_frame": "missing"},
    {"history": 4, "follow": "published-code", "grid_size": 16, "step_limit": 15},
    {"history": 3, "windows": "code", "timeouts": "terminal", "step_limit": 7, "starts": "shifted"},
    {"history": 2, "distance": "anti-diagonal", "first_frame": "missing", "grid_size": 7},
    {"history": 3, "step_reward": -5.0, "obstacle_reward": -50.0, "meeting_reward": -50.0},
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
@pytest.mark.parametrize("role", ROLES)
def test_equal_to_the_plain_simulation(cache: Path, case: dict[str, Any], role: Role) -> None:
    """Random steps in envs that idle now and then and begin new episodes at once."""
    world, rng = world_of(cache, **case), np.random.default_rng(3)
    played, count = world.episodes["train"], world.num_episodes("train")
    view, reward_function = world.view(role, "train", ENVS), world.reward_function("train", ENVS)
    rows = rng.integers(count, size=ENVS)
    view.begin(np.arange(ENVS), rows)
    reward_function.begin(np.arange(ENVS), rows)
    plain = [Plain(world, played, int(row)) for row in rows]
    for _ in range(TICKS):
        actions = np.where(rng.random(ENVS) < 0.1, IDLE, rng.integers(16, size=ENVS))
        acting = np.flatnonzero(actions != IDLE)
        step = reward_function.step(actions)
        before, after = view.move(actions)
        want = [plain[i].step(int(actions[i])) for i in acting]
        np.testing.assert_allclose(step.rewards[acting], [w[0] for w in want], rtol=1e-6)
        assert step.ended[acting].tolist() == [w[1] for w in want]
        assert step.terminal[acting].tolist() == [w[2] for w in want]
        idle = actions == IDLE
        assert not step.rewards[idle].any() and not (step.ended | step.terminal)[idle].any()
        stored = [plain[i].stored(role) for i in acting]
        assert_equal_inputs(view.inputs(before[acting]), [s[0] for s in stored])
        assert_equal_inputs(view.inputs(after[acting]), [s[1] for s in stored])
        assert_equal_inputs(view.inputs(view.records()), [p.live(role) for p in plain])
        (envs,) = np.nonzero(step.ended)
        rows = rng.integers(count, size=len(envs))
        view.begin(envs, rows)
        reward_function.begin(envs, rows)
        for env, row in zip(envs, rows, strict=True):
            plain[env] = Plain(world, played, int(row))


@pytest.mark.parametrize("changes", [{}, {"follow": "published-code"}], ids=["paper", "code"])
def test_scores_equal_to_the_plain_simulation(cache: Path, changes: dict[str, Any]) -> None:
    world, rng = world_of(cache, step_limit=20, **changes), np.random.default_rng(0)
    reward_function, count = world.reward_function("test", 50), world.num_episodes("test")
    rows = np.arange(50) % count
    reward_function.begin(np.arange(50), rows)
    plain = [Plain(world, world.episodes["test"], int(row)) for row in rows]
    while not all(p.over for p in plain):
        actions = np.array([IDLE if p.over else rng.integers(16) for p in plain])
        reward_function.step(actions)
        for p, action in zip(plain, actions, strict=True):
            if action != IDLE:
                p.step(int(action))
    optimum = [int(world.episodes["test"].path_len[row]) // 2 for row in rows]
    met = [(len(p.rewards), m) for p, m in zip(plain, optimum, strict=True) if p.met]
    want = {
        "success-rate": len(met) / 50,
        "average-reward": sum(sum(p.rewards) for p in plain) / 50,
        **{f"within-{k}x": sum(s - m <= k * m for s, m in met) / 50 for k in (1, 3, 5, 10)},
        "mean-steps": sum(s for s, _ in met) / len(met),
        "step-diff": (sum(s for s, _ in met) - sum(m for _, m in met)) / sum(m for _, m in met),
    }
    assert reward_function.scores() == pytest.approx(want, rel=1e-6)
    assert 0 < want["success-rate"] < 1 and want["within-1x"] < want["within-10x"]


# --- policies on the published maps -----------------------------------------------------------------


def play(world: GridWorld, envs: int, policy: Any) -> MeetingReward:
    """All envs to their ends; the test split goes round."""
    rows = np.arange(envs) % world.num_episodes("test")
    reward_function, active = world.reward_function("test", envs), np.ones(envs, bool)
    reward_function.begin(np.arange(envs), rows)
    for tick in range(world.longest):
        actions = np.where(active, policy(rows, tick), IDLE)
        active &= ~reward_function.step(actions).ended
        if not active.any():
            break
    assert not active.any()
    return reward_function


# Success rate and mean sum of rewards of uniformly random joint actions on 800 episodes. Of those, one
# draw's success rate has a standard deviation of up to 0.017; the average of ten draws one of 0.006.
RANDOM = {
    ("corrected", 8): (0.740, -73),
    ("corrected", 16): (0.403, -233),
    ("corrected", 32): (0.163, -362),
    ("published-code", 8): (0.925, -8),
    ("published-code", 16): (0.723, -142),
    ("published-code", 32): (0.550, -222),
}
EXPERT = {8: (54, 1.9), 16: (63, 4.7), 32: (86, 10.1)}


@pytest.fixture(scope="module")
def data_dir(shared: Path) -> str:
    folder = shared / "data" / "fedrl"
    if not (folder / "frl_grid_8.npz").is_file():
        pytest.skip(f"published maps not found at {folder}")
    return str(folder)


@pytest.mark.slow
@pytest.mark.needs_shared
@pytest.mark.parametrize(("setting", "size"), RANDOM)
def test_random_policy(data_dir: str, setting: str, size: int) -> None:
    world = open_gridworld(
        changed(FedRLConfig(), data_dir=data_dir, grid_size=size, follow=setting)
    )
    rng, found = np.random.default_rng(0), []
    for _ in range(10):
        reward_function = play(world, 800, lambda rows, tick: rng.integers(16, size=len(rows)))
        found.append(reward_function.scores())
    success, reward = RANDOM[setting, size]
    assert np.mean([f["success-rate"] for f in found]) == pytest.approx(success, abs=0.02)
    assert np.mean([f["average-reward"] for f in found]) == pytest.approx(reward, rel=0.03, abs=4)


@pytest.mark.needs_shared
@pytest.mark.parametrize("size", EXPERT)
def test_expert_policy(data_dir: str, size: int) -> None:
    world = open_gridworld(changed(FedRLConfig(), data_dir=data_dir, grid_size=size))
    scores = play(world, 800, lambda rows, tick: world.expert("test", rows, tick)).scores()
    reward, steps = EXPERT[size]
    assert scores["success-rate"] == 1.0
    assert scores["average-reward"] == pytest.approx(reward, abs=1)
    assert scores["mean-steps"] == pytest.approx(steps, abs=0.05)


# --- the expert -------------------------------------------------------------------------------------


def test_expert_walks_both_ways_and_meets_in_the_fewest_steps(cache: Path) -> None:
    world = world_of(cache, grid_size=16)
    reward_function = play(world, 300, lambda rows, tick: world.expert("test", rows, tick))
    length = world.episodes["test"].path_len[np.arange(300) % world.num_episodes("test")]
    steps = np.maximum((length - 1) // 2, 1)
    assert reward_function.met.all()
    assert reward_function.scores()["mean-steps"] == pytest.approx(steps.mean())


@pytest.mark.parametrize("role", ROLES)
def test_demonstrations_are_those_of_the_stored_paths(cache: Path, role: Role) -> None:
    world = world_of(cache, history=3)
    records, actions = world.demonstrations(role)
    played, at = world.episodes["train"], 0
    want: list[list[np.ndarray]] = []
    for row in range(world.num_episodes("train")):
        plain = Plain(world, played, row)
        first = int(played.first_cell[row])
        cells = world.maps.cells[first : first + int(played.path_len[row])]
        path = [divmod(int(c), world.maps.size) for c in cells]
        for t in range((len(path) - 1) // 2):
            want.append(plain.live(role))
            plain.step(int(actions[at]))
            assert plain.frames[-1] == (path[t + 1], path[-2 - t])
            at += 1
    assert len(records) == len(actions) == at > 100
    assert_equal_inputs(world.view(role, "train", 1).inputs(records), want)


@pytest.mark.parametrize("method", ["oracle", "fcn-alpha"])
def test_expert_needs_exact_starts(cache: Path, method: str) -> None:
    config = changed(FedRLConfig(), cache_dir=str(cache), maps=300, method=method, starts="shifted")
    with pytest.raises(InputError, match=r'set published\.starts = "exact"'):
        validate(config)


# --- state, facts, misuse -----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_restored_in_the_middle_of_episodes_equals_uninterrupted(cache: Path, role: Role) -> None:
    world, rng = world_of(cache, first_frame="missing", step_limit=30), np.random.default_rng(1)
    actions = rng.integers(16, size=(14, ENVS))

    def fresh() -> tuple[Any, MeetingReward]:
        return world.view(role, "train", ENVS), world.reward_function("train", ENVS)

    def run(view: Any, reward_function: MeetingReward, part: np.ndarray) -> list[np.ndarray]:
        out = []
        for joint in part:
            before, after = view.move(joint)
            step = reward_function.step(joint)
            (envs,) = np.nonzero(step.ended)
            for each in (view, reward_function):
                each.begin(envs, envs + 7)
            out += [before, after, view.records(), step.rewards, step.ended, step.terminal]
        return out

    view, reward_function = fresh()
    for each in (view, reward_function):
        each.begin(np.arange(ENVS), np.arange(ENVS))
    run(view, reward_function, actions[:7])
    kept = [{k: v.copy() for k, v in each.state().items()} for each in (view, reward_function)]
    want = run(view, reward_function, actions[7:])
    again = fresh()
    for each, state in zip(again, kept, strict=True):
        each.restore(state)
    got = run(*again, actions[7:])
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
    for each, other in zip(again, (view, reward_function), strict=True):
        assert all(np.array_equal(v, other.state()[k]) for k, v in each.state().items())
    with pytest.raises(ValueError, match="expected shape"):
        world.view(role, "train", 3).restore(kept[0])
    with pytest.raises(ValueError, match="expected shape"):
        world.reward_function("train", 3).restore(kept[1])


def test_records_given_away_do_not_change(cache: Path) -> None:
    view = world_of(cache).view("alpha", "train", 5)
    view.begin(np.arange(5), np.arange(5))
    kept = [view.records(), *view.move(np.arange(5))]
    copies = [array.copy() for array in kept]
    view.begin(np.arange(5), np.arange(5, 10))
    view.move(np.full(5, 3))
    assert all(np.array_equal(a, b) for a, b in zip(kept, copies, strict=True))


@pytest.mark.parametrize("role", ROLES)
def test_networks_fit_views(cache: Path, role: Role) -> None:
    world = world_of(cache, history=4, windows="code")
    view = world.view(role, "train", 6)
    view.begin(np.arange(6), np.arange(6))
    network = world.network(role, torch.Generator().manual_seed(0))
    twin = world.network(role, torch.Generator().manual_seed(0))
    inputs = view.inputs(view.records())
    assert network(*inputs).shape == (6, world.num_actions)
    assert torch.equal(network(*inputs), twin(*inputs))


def test_facts_tell_worlds_apart(cache: Path) -> None:
    facts = world_of(cache).facts
    assert facts["grid-size"] == 8 and facts["history"] == 2 and facts["distance"] == "manhattan"
    assert facts["step-limit"] == 2 * world_of(cache).maps.path_len.max()
    assert facts["train-episodes"] == world_of(cache).num_episodes("train")
    assert all(isinstance(value, int | str) for value in facts.values())
    for changes in (
        {"generated_seed": 1},
        {"starts": "shifted"},
        {"history": 3},
        {"step_limit": 9},
    ):
        assert world_of(cache, **changes).facts != facts
    assert world_of(cache, starts="shifted").facts["shared-maps"] != facts["shared-maps"]
    assert world_of(cache, seed=9).facts == facts


def test_misuse_is_refused(cache: Path) -> None:
    world = world_of(cache, step_limit=1)
    reward_function, view = world.reward_function("train", 3), world.view("beta", "train", 3)
    with pytest.raises(ValueError, match="0 were begun"):
        reward_function.scores()
    reward_function.begin(np.arange(2), np.arange(2))
    with pytest.raises(ValueError, match="2 were begun, 2 go on"):
        reward_function.scores()
    with pytest.raises(ValueError, match=r"envs \[2\]: the episode is over"):
        reward_function.step(np.zeros(3, int))
    reward_function.step(np.array([5, 5, IDLE]))
    assert np.isfinite(list(reward_function.scores().values())).all()
    with pytest.raises(ValueError, match=r"shape \(3,\), got \(2,\)"):
        view.move(np.zeros(2, int))
    with pytest.raises(ValueError, match=r"-1 \(idle\) to 15"):
        view.move(np.array([0, 16, 0]))


def test_scores_without_success_are_finite(cache: Path) -> None:
    world = world_of(cache, step_limit=1)
    far = np.flatnonzero(world.episodes["train"].path_len > 5)[:4]
    reward_function = world.reward_function("train", 4)
    reward_function.begin(np.arange(4), far)
    reward_function.step(np.zeros(4, int))
    scores = reward_function.scores()
    assert scores["success-rate"] == scores["mean-steps"] == scores["step-diff"] == 0.0


def test_windows_keep_to_their_map() -> None:
    """Every window of every interior cell, on maps all of whose neighbours in memory differ."""
    rng = np.random.default_rng(0)
    maps = np.zeros((20, 6, 6), np.uint8)
    maps[:, 1:-1, 1:-1] = rng.integers(0, 2, (20, 4, 4))
    maps[:, 2, 2:4] = 1
    length = np.zeros((20, 8), np.int64)
    length[:, 0] = 2
    cells = np.tile(np.array([14, 15], np.int32), 20)
    world = GridWorld(changed(FedRLConfig(), grid_size=6), MapSet(maps, length, cells, "hand-made"))
    for agent, side in enumerate(world.rules.window_sides):
        view = world.view(("alpha", "beta")[agent], "train", 1)
        for m in range(20):
            padded = np.pad(maps[m], 3)
            for row in range(1, 5):
                for col in range(1, 5):
                    place = world.ground.places(np.array([m]), np.array([[row, col]]))
                    trail = np.array([[world.ground.nowhere, place[0]]], np.int32)
                    got = view.inputs(trail)[0].numpy()[0]
                    low = 3 - side // 2
                    want = padded[row + low : row + low + side, col + low : col + low + side]
                    assert not got[0].any()
                    np.testing.assert_array_equal(got[1], want)
