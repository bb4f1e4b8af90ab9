"""The plan of a run against counting environment steps one by one."""

from typing import Any

import numpy as np
import pytest

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.schedule import Schedule
from tests.harness import changed


def schedule(**changes: Any) -> Schedule:
    return Schedule(changed(FedRLConfig(), **changes))


@pytest.mark.parametrize("envs", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("due", [1, 3, 16])
@pytest.mark.parametrize("every", [1, 5, 7])
def test_learning_and_refreshing_follow_the_steps_whatever_the_envs(
    envs: int, due: int, every: int
) -> None:
    plan = schedule(
        parallel_episodes=envs, steps_per_update=due, target_every=every, batch_size=16, history=2
    )
    step, missed = 0, 0
    for exchange in range(60):
        refreshed = any(s % every == 0 for s in range(step - envs + 1, step + 1)) and step > 0
        assert plan.refreshes_targets(exchange) == refreshed
        made = [s for s in range(step + 1, step + envs + 1) if s % due == 0]
        step += envs
        if step <= 18:
            missed += len(made)
            made = []
        assert plan.updates(exchange) == len(made)
    total = sum(plan.updates(n) for n in range(60))
    assert total == 60 * envs // due - missed > 0


def test_exploration_falls_from_one_to_the_last_value_and_stays() -> None:
    plan = schedule(parallel_episodes=4, epsilon_steps=100, epsilon_last=0.2)
    values = [plan.epsilon(n) for n in range(40)]
    assert (
        values[0] == 1.0 and values[25] == pytest.approx(0.2) and values[39] == pytest.approx(0.2)
    )
    np.testing.assert_allclose(np.diff(values[:26]), -0.8 * 4 / 100, atol=1e-12)
    assert schedule(epsilon_steps=100).epsilon(50) == pytest.approx(
        schedule(epsilon_steps=100, parallel_episodes=5).epsilon(10)
    )


def test_the_public_coin_falls_as_often_as_asked_and_alike_for_all() -> None:
    plan = schedule(parallel_episodes=100, follow="published-code")
    coins = np.concatenate([plan.noisy(n) for n in range(1, 60)])
    assert len(coins) == 5900 and abs(coins.mean() - 0.5) < 0.03
    assert (
        plan.noisy(7).tolist()
        == schedule(parallel_episodes=100, noise_probability=0.5).noisy(7).tolist()
    )
    assert schedule(parallel_episodes=100).noisy(3).all()
    assert not schedule(parallel_episodes=100, noise_probability=0.0).noisy(3).any()
