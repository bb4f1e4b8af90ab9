"""Holds worlds (fedsuite.fedrl.worlds) and environments of Gymnasium and PettingZoo to their contracts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from fedsuite.arrays import fingerprint, module_arrays
from fedsuite.checking.contract import (
    check_arrays,
    check_metrics,
    check_scalars,
    no_exception,
    require,
)

IDLE = -1  # the action of an env that takes no part
Part = Any  # a view or a reward function
Outcome = tuple[np.ndarray, ...]


def check_environment(
    thing: Any,
    *,
    roles: Sequence[str] = ("alpha", "beta"),
    splits: Sequence[str] = ("train", "valid", "test"),
    envs: int = 3,
    seed: int = 0,
) -> None:
    """Play random episodes of a World, or hand an environment to Gymnasium's or PettingZoo's own check; ContractError.

    A world, for each of these splits and, for views, roles:

    * num_actions and longest are whole numbers > 0, score is a metric of the reward function, facts are scalars
    * a step gives rewards float32, ended bool, terminal bool, [E] each; no env is terminal that has not ended
    * every episode ends within `longest` steps
    * records are whole numbers [E, R], before, after and now, and are not changed later
    * IDLE changes nothing and rewards nothing; envs do not depend on one another
    * the same actions give the same outcome; so does a new part that goes on from `state()`, which is a copy
    * inputs() changes nothing; the network takes them, gives finite Q [B, A] and is drawn from its generator alone
    """
    if hasattr(thing, "reward_function") and hasattr(thing, "view"):
        for name in ("num_actions", "longest"):
            value = getattr(thing, name, None)
            good = type(value) is int and value > 0
            require(good, f"world.{name}", "a whole number > 0", value, "a numpy number")
        check_scalars("world.facts", thing.facts)
        for split in splits:
            rows = np.arange(envs) % thing.num_episodes(split)
            script = _check_reward_function(thing, split, rows, np.random.default_rng(seed))
            for role in roles:
                _check_view(thing, role, split, rows, script)
        return
    with no_exception(type(thing).__name__, "see the message"):
        if hasattr(thing, "possible_agents"):
            from pettingzoo.test import parallel_api_test

            parallel_api_test(thing, num_cycles=100)
        else:
            from gymnasium.utils.env_checker import check_env

            check_env(thing, skip_render_check=True)


def _check_reward_function(
    world: Any, split: str, rows: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Episodes to their ends, one env idle now and then; the actions [E] of every tick."""
    where, envs = f"reward function of {split}", len(rows)
    reward_function = world.reward_function(split, envs)
    script: list[np.ndarray] = []
    reward_function.begin(np.arange(envs), rows)
    steps, over = np.zeros(envs, int), np.zeros(envs, bool)
    while not over.all():
        actions = rng.integers(world.num_actions, size=envs)
        actions[over] = IDLE
        if len(script) % 3 == 2:
            actions[len(script) % envs] = IDLE
        script.append(actions)
        step, acts = reward_function.step(actions.copy()), actions != IDLE
        for name, kind in (("rewards", np.float32), ("ended", np.bool_), ("terminal", np.bool_)):
            found = (getattr(step, name).dtype, getattr(step, name).shape)
            good, expected = found == (kind, (envs,)), f"{name} {kind.__name__} [{envs}]"
            require(good, where, expected, found, "float64 arithmetic, or one env's value")
        idle = not (step.rewards[~acts].any() or step.ended[~acts].any())
        require(idle, where, "no reward and no end in idle envs", step, "IDLE taken as an action")
        good = not (step.terminal & ~step.ended).any()
        require(good, where, "terminal only where ended", step, "time-outs the wrong way round")
        steps, over = steps + acts, over | step.ended
        good, cause = (steps <= world.longest).all(), "the step limit is not kept, or `longest` is"
        require(good, where, f"ends within longest = {world.longest} steps", steps, cause)
    scores = reward_function.scores()
    check_metrics(where, scores)
    require(world.score in scores, where, f"a metric {world.score!r}", [*scores], "a typing error")
    _check_part(where, lambda n: world.reward_function(split, n), rows, script)
    return script


def _check_view(
    world: Any, role: str, split: str, rows: np.ndarray, script: Sequence[np.ndarray]
) -> None:
    where, envs = f"view of {role}, {split}", len(rows)
    view = world.view(role, split, envs)
    view.begin(np.arange(envs), rows)
    records, kept = view.records(), []
    form = (records.dtype, records.shape)
    good = records.ndim == 2 and len(records) == envs and records.dtype.kind in "iu"
    require(good, where, f"records of whole numbers [{envs}, R]", form, "observations as records")
    for actions in script:
        for array in (*view.move(actions.copy()), view.records()):
            found = (array.dtype, array.shape)
            require(found == form, where, f"records {form} of every step", found, "another dtype")
            kept.append((array, array.copy()))
    same = all((array == copy).all() for array, copy in kept)
    require(same, where, "records given away as they were", "others", "give copies away")
    _check_network(where, world, role, view)
    _check_part(where, lambda n: world.view(role, split, n), rows, script)


def _check_network(where: str, world: Any, role: str, view: Part) -> None:
    records, before = view.records(), fingerprint(view.state())
    inputs, again = view.inputs(records.copy()), view.inputs(records.copy())
    tensors = isinstance(inputs, tuple) and all(isinstance(x, torch.Tensor) for x in inputs)
    require(tensors, where, "a tuple of tensors of inputs()", type(inputs).__name__, "a comma")
    sizes = [len(x) for x in inputs]
    require({*sizes} == {len(records)}, where, f"{len(records)} rows of inputs", sizes, "an axis")
    same = fingerprint(view.state()) == before
    same = same and all(torch.equal(a, b) for a, b in zip(inputs, again, strict=True))
    require(same, where, "inputs() that changes nothing", "a change", "it moves or draws")
    with torch.random.fork_rng(devices=[]):
        made = [world.network(role, torch.Generator().manual_seed(1)) for _ in range(2)]
    same = fingerprint(module_arrays(made[0])) == fingerprint(module_arrays(made[1]))
    cause = "torch's own generator draws; give torch.nn.init the generator"
    require(same, where, "a network drawn from its generator alone", "others", cause)
    with torch.no_grad(), no_exception(where, "the network is for other inputs"):
        q = made[0](*inputs)
    form, good = (len(records), world.num_actions), bool(torch.isfinite(q).all())
    require(tuple(q.shape) == form and good, where, f"finite Q {form}", tuple(q.shape), "sizes")


def _check_part(
    where: str, make: Callable[[int], Part], rows: np.ndarray, script: Sequence[np.ndarray]
) -> None:
    """What holds for views and reward functions alike."""

    def begun(chosen: np.ndarray) -> Part:
        part = make(len(chosen))
        part.begin(np.arange(len(chosen)), chosen)
        return part

    whole = _played(begun(rows), script)
    same, cause = _same(_played(begun(rows), script), whole), "draws that are not the episode's"
    require(same, where, "the same outcome twice", "others", cause)
    for env in range(len(rows)):
        alone = _played(begun(rows[[env]]), [actions[[env]] for actions in script])
        same = _same(alone, [tuple(a[[env]] for a in outcome) for outcome in whole])
        require(same, where, f"env {env} as if it were alone", "another", "envs mixed up")
    part, half, cause = begun(rows), len(script) // 2, "a counter that goes on"
    _played(part, script[:half])
    state = part.state()
    check_arrays(f"{where}, state()", state)
    before = fingerprint(state)
    _played(part, [np.full(len(rows), IDLE)])
    same = fingerprint(part.state()) == before
    require(same, where, "IDLE to change nothing", "another state()", cause)
    same = _same(_played(part, script[half:]), whole[half:])
    require(same, where, "the same after a tick of IDLE", "others", cause)
    same = fingerprint(state) == before
    require(same, where, "state() to stay as it was", "changes with later steps", "no copy")
    restored = make(len(rows))
    restored.restore(state)
    same = _same(_played(restored, script[half:]), whole[half:])
    require(same, where, "the same after restore(state())", "others", "state() lacks something")


def _played(part: Part, script: Sequence[np.ndarray]) -> list[Outcome]:
    """Copies of all that the part says to these actions."""
    told: list[Outcome] = []
    for actions in script:
        if hasattr(part, "move"):
            outcome = (*part.move(actions.copy()), part.records())
        else:
            step = part.step(actions.copy())
            outcome = (step.rewards, step.ended, step.terminal)
        told.append(tuple(array.copy() for array in outcome))
    return told


def _same(a: Sequence[Outcome], b: Sequence[Outcome]) -> bool:
    return all(
        np.array_equal(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True)
    )
