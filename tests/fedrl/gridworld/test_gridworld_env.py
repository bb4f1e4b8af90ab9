"""Grid-World behind the interfaces of Gymnasium and PettingZoo."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.env import GridWorldEnv, GridWorldVectorEnv
from fedsuite.fedrl.gridworld.world import prepare
from fedsuite.fedrl.worlds import Role
from tests.harness import changed

ROLES: tuple[Role, ...] = ("alpha", "beta", "gamma", "full")


@pytest.fixture(scope="module")
def make_config(cache: Path) -> Callable[..., FedRLConfig]:
    def make(**changes: Any) -> FedRLConfig:
        config = changed(FedRLConfig(), **({"cache_dir": str(cache), "maps": 300} | changes))
        prepare(config)
        return config

    return make


def leaves(observation: Any) -> list[np.ndarray]:
    return list(observation.values()) if isinstance(observation, dict) else [observation]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("role", ROLES)
def test_gymnasium_accepts_the_environment(
    make_config: Callable[..., FedRLConfig], role: Role
) -> None:
    env = GridWorldEnv(make_config(history=3), "valid", role)
    check_env(env, skip_render_check=True)


@pytest.mark.parametrize("timeouts", ["bootstrapped", "terminal"])
def test_meeting_terminates_and_time_truncates(
    make_config: Callable[..., FedRLConfig], timeouts: str
) -> None:
    env = GridWorldEnv(make_config(timeouts=timeouts, step_limit=6))
    ends = set()
    for seed in range(20):
        _, info = env.reset(seed=seed)
        assert 0 <= info["row"] < env.world.num_episodes("train")
        terminated = truncated = False
        steps = 0
        while not (terminated or truncated):
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            assert not (terminated and truncated)
            assert (reward > 20) == terminated  # the reward of meeting is 50
            steps += 1
        assert steps == 6 or terminated
        ends.add((terminated, truncated))
    assert ends == {(True, False), (False, True)}


def test_episodes_are_chosen_by_seed_or_row(make_config: Callable[..., FedRLConfig]) -> None:
    env, twin = (GridWorldEnv(make_config()) for _ in range(2))
    rows = [e.reset(seed=5)[1]["row"] for e in (env, twin)]
    rows += [e.reset()[1]["row"] for e in (env, twin)]
    assert rows[0] == rows[1] and rows[2] == rows[3] and rows[0] != rows[2]
    assert env.reset(options={"row": 17})[1]["row"] == 17
    with pytest.raises(ValueError, match="row: expected a number"):
        env.reset(options={"row": 10_000})


@pytest.mark.parametrize("role", ROLES)
def test_vector_environment_equals_single_ones(
    make_config: Callable[..., FedRLConfig], role: Role
) -> None:
    config, envs = make_config(step_limit=5), 9
    vector = GridWorldVectorEnv(config, envs, role=role)
    assert vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    single = [GridWorldEnv(config, role=role) for _ in range(envs)]
    seen, infos = vector.reset(seed=2)
    assert vector.observation_space.contains(seen)
    for env, row in zip(single, infos["row"], strict=True):
        env.reset(options={"row": int(row)})
    over, resets = np.zeros(envs, bool), 0
    rng = np.random.default_rng(0)
    for _ in range(30):
        actions = rng.integers(16, size=envs)
        seen, rewards, terminated, truncated, infos = vector.step(actions)
        assert vector.observation_space.contains(seen)
        for number, env in enumerate(single):
            got = [leaf[number] for leaf in leaves(seen)]
            if over[number]:
                want, _ = env.reset(options={"row": int(infos["row"][number])})
                assert rewards[number] == 0 and not terminated[number] and not truncated[number]
                resets += 1
            else:
                want, *rest, _ = env.step(actions[number])
                assert [rewards[number], terminated[number], truncated[number]] == rest
            assert all(np.array_equal(a, b) for a, b in zip(got, leaves(want), strict=True))
        over = terminated | truncated
    assert resets > envs


def test_vector_environment_is_seeded_and_takes_rows(
    make_config: Callable[..., FedRLConfig],
) -> None:
    env = GridWorldVectorEnv(make_config(), 50)
    rows = [env.reset(seed=seed)[1]["row"].tolist() for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]
    chosen = np.arange(50)[::-1]
    assert env.reset(options={"row": chosen})[1]["row"].tolist() == chosen.tolist()
    with pytest.raises(ValueError, match="row: expected 50 numbers"):
        env.reset(options={"row": [1, 2]})


def parallel_env(config: FedRLConfig) -> Any:
    pytest.importorskip("pettingzoo")
    from fedsuite.fedrl.gridworld.parallel_env import GridWorldParallelEnv

    return GridWorldParallelEnv(config)


def test_pettingzoo_accepts_the_environment(make_config: Callable[..., FedRLConfig]) -> None:
    env = parallel_env(make_config(step_limit=10))
    from pettingzoo.test import parallel_api_test, parallel_seed_test

    parallel_api_test(env, num_cycles=100)
    parallel_seed_test(lambda: parallel_env(make_config(step_limit=10)))


def test_both_agents_move_and_only_alpha_sees_rewards(
    make_config: Callable[..., FedRLConfig],
) -> None:
    config = make_config(step_limit=8)
    env, joint = parallel_env(config), GridWorldEnv(config)
    rng, met, late = np.random.default_rng(0), 0, 0
    for row in range(20):
        seen, _ = env.reset(options={"row": row})
        want, _ = joint.reset(options={"row": row})
        while env.agents:
            assert all(np.array_equal(seen[a], want[a]) for a in ("alpha", "beta"))
            a, b = rng.integers(4, size=2)
            seen, rewards, terminated, truncated, _ = env.step({"alpha": a, "beta": b})
            want, reward, done, out_of_time, _ = joint.step(np.int64(4 * a + b))
            assert rewards == {"alpha": reward, "beta": 0.0}
            assert terminated == {"alpha": done, "beta": done}
            assert truncated == {"alpha": out_of_time, "beta": out_of_time}
        met, late = met + done, late + out_of_time
    assert met and late
    with pytest.raises(ValueError, match="call reset"):
        env.step({"alpha": 0, "beta": 0})


def test_absent_pettingzoo_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "fedsuite.fedrl.gridworld.parallel_env", raising=False)
    with pytest.raises(ImportError, match="pip install pettingzoo"):
        import fedsuite.fedrl.gridworld.parallel_env  # noqa: F401
