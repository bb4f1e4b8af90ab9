"""The worlds in Gymnasium's registry: found, accepted by its checker, and playing what the cores play."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import fedsuite.worlds
from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.open_world import open_world
from fedsuite.settings.config import read_config
from fedsuite.vln.data.dataset import make_episodes
from fedsuite.vln.house_env import HouseEnv
from tests.harness import ROOT

GRID, TEXT, HOUSE = fedsuite.worlds.ENVIRONMENTS
FEW_PATHS = {"data.generated-paths-per-house": 12, "data.generated-feature-size": 8}
SMALL: dict[str, dict[str, Any]] = {GRID: {"data.maps": 200}, TEXT: {}, HOUSE: FEW_PATHS}


def made(name: str, cache: Path, config: dict[str, Any] | None = None, **more: Any) -> Any:
    given = {"data.cache-dir": str(cache), **SMALL[name], **(config or {})}
    return gymnasium.make(name, config=given, **more)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("name", "more"),
    [
        (GRID, {}),
        (GRID, {"role": "gamma", "split": "test"}),
        (TEXT, {}),
        (TEXT, {"role": "alpha"}),
        (TEXT, {"role": "beta", "config": {"world.task": "arguments"}}),
        (HOUSE, {}),
        (HOUSE, {"split": "val_unseen"}),
    ],
)
def test_gymnasium_accepts_them(cache: Path, name: str, more: dict[str, Any]) -> None:
    check_env(made(name, cache, **more).unwrapped)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", SMALL)
def test_episodes_are_those_of_the_seed(cache: Path, name: str) -> None:
    """Whole episodes through Gymnasium's own wrappers, twice."""
    env = made(name, cache)

    def played(seed: int) -> list[Any]:
        told = [env.reset(seed=seed)]
        env.action_space.seed(seed)
        over = False
        while not over:
            told.append(env.step(env.action_space.sample()))
            over = told[-1][2] or told[-1][3]
        return told

    assert repr(played(3)) == repr(played(3)) != repr(played(4))


@pytest.mark.slow
def test_the_default_world_is_opened_in_an_empty_folder(tmp_path: Path) -> None:
    """As a user would, by the module's name alone; nothing of ours has been imported before."""
    code = (
        "import gymnasium; e = gymnasium.make('fedsuite.worlds:fedsuite/House-v0'); o, i = e.reset(seed=1);"
        "print(i['instruction'], e.step(0)[2])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("True\n") and len(done.stdout.split()) > 5


def test_many_grid_worlds_at_once(cache: Path) -> None:
    config = {"data.cache-dir": str(cache), **SMALL[GRID]}
    many = gymnasium.make_vec(
        GRID, num_envs=5, vectorization_mode="vector_entry_point", config=config
    )
    seen, _ = many.reset(seed=0)
    assert seen["alpha"].shape == (5, 2, 3, 3) and many.step(many.action_space.sample())[
        1
    ].shape == (5,)


def test_a_text_is_read_as_the_parties_read_it(cache: Path) -> None:
    """The expert's decisions earn what the world's own judge gives, and every word is decided in its turn."""
    env = made(TEXT, cache, {"world.task": "arguments"}, split="valid").unwrapped
    world = open_world(
        read_config(
            FedRLConfig,
            {
                "data.cache-dir": str(cache),
                "world.kind": "text2action",
                "world.task": "arguments",
            },
        )
    )
    judge = world.reward_function("valid", 1)
    for row in range(5):
        seen, _ = env.reset(options={"row": row})
        judge.begin(np.zeros(1, int), np.array([row]))
        over, tick = False, 0
        while not over:
            assert (seen["tags"] > 0).sum() == tick
            action = world.expert("valid", np.array([row]), tick)
            seen, reward, over, truncated, _ = env.step(action[0])
            assert seen["tags"][tick] == 1 + action[0] and not truncated
            assert reward == judge.step(action).rewards[0]
            tick += 1
        length = world.table.lengths[world.splits["valid"][row]]
        assert tick == length and not seen["words"][length:].any() and seen["words"][:length].any()
    assert judge.scores()["recall"] > 0


def test_the_teacher_walks_the_annotated_way(cache: Path) -> None:
    env: HouseEnv = made(HOUSE, cache).unwrapped
    for sample in env.samples[:6]:
        seen, info = env.reset(options={"instruction": sample.instr_id})
        assert info["instruction"] == sample.text
        assert (seen["instruction"] > 0).sum() == len(sample.tokens)
        walked, total, over = [], 0.0, False
        while not over:
            walked.append(env.house.graph.index[info["viewpoint"]])
            action = info["teacher"]
            assert seen["action-mask"][action] == 1
            seen, reward, over, _, info = env.step(action)
            total += reward
        assert tuple(walked) == sample.path and info["success"]
        assert total == len(sample.path) - 1 + 2  # one for each move, two for the stop


def test_a_house_shows_what_the_agent_sees(cache: Path) -> None:
    env: HouseEnv = made(HOUSE, cache).unwrapped
    seen, _ = env.reset(seed=0)
    assert env._sample is not None
    start = make_episodes([env._sample], env.world)
    around = env.world.observe(start.start, start.start_view)
    count = int(around.count[0])
    assert seen["action-mask"].sum() == count + 1
    views = env.world.views[start.start[0]]
    assert np.array_equal(seen["panorama"], views)
    assert np.array_equal(seen["candidates"][:count], views[around.view[0]])
    assert np.array_equal(seen["candidate-angles"][:count], around.angle[0])
    forward = seen["panorama-angles"][int(start.start_view)]
    assert np.allclose(forward, [0, 1, 0, 1], atol=1e-6)


def test_a_neighbour_that_is_not_there_and_a_walk_without_end(cache: Path) -> None:
    env: HouseEnv = made(HOUSE, cache, {"agent.max-actions": 3}).unwrapped
    for seed in range(50):
        seen, before = env.reset(seed=seed)
        if not seen["action-mask"].all():
            break
    absent = int(np.flatnonzero(seen["action-mask"] == 0)[0])
    outcomes = [env.step(np.int64(absent)) for _ in range(3)]
    assert all(np.array_equal(outcomes[-1][0][k], seen[k]) for k in seen)
    assert all(o[4]["viewpoint"] == before["viewpoint"] and o[1] == 0 for o in outcomes)
    assert [o[2:4] for o in outcomes] == [(False, False), (False, False), (False, True)]


def test_a_house_of_ones_own(data_dir: Path, cache: Path) -> None:
    """The files that a run reads."""
    own = {"data.dir": str(data_dir), "data.features": str(data_dir / "features.tsv")}
    env = made(HOUSE, cache, own, house="elm")
    seen, info = env.reset(seed=0)
    assert info["house"] == "elm" and seen["panorama"].shape == (36, 8)
    assert torch.equal(env.unwrapped.world.views[1], torch.zeros(36, 8))  # the excluded one


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        (GRID, {"config": {"world.gridsize": 9}}, "config: .*world.grid-size"),
        (GRID, {"role": "betta"}, "role: .*'beta'"),
        (GRID, {"config": {"world.kind": "text2action"}}, "world.kind.* gridworld"),
        (TEXT, {"role": "gamma"}, "role: .*alpha, beta, full"),
        (TEXT, {"split": "val"}, "split: .*'valid'"),
        (HOUSE, {"house": "nowhere"}, "house: .*'nowhere'"),
        (HOUSE, {"split": "val-unseen"}, "split: .*'val_unseen'"),
    ],
)
def test_what_cannot_be_is_refused(
    cache: Path, name: str, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        made(name, cache, **given)


def test_a_path_that_comes_back_is_walked_to_its_end(data_dir: Path, cache: Path) -> None:
    """R4R in a house: the teacher stops where the path ends, not where it passes by that place."""
    for split in ("train", "val_seen", "val_unseen"):
        items = json.loads((data_dir / f"annotations/R2R_{split}.json").read_text())
        back = [{**i, "path": [*i["path"], *i["path"][-2::-1]], "first_path_id": 1} for i in items]
        (data_dir / f"annotations/R4R_{split}.json").write_text(json.dumps(back))
    own = {"data.dir": str(data_dir), "data.features": str(data_dir / "features.tsv")}
    env = made(HOUSE, cache, {**own, "data.dataset": "r4r"}, house="oak").unwrapped
    for sample in env.samples[:4]:
        _, info = env.reset(options={"instruction": sample.instr_id})
        walked, total, over = [], 0.0, False
        while not over:
            walked.append(env.house.graph.index[info["viewpoint"]])
            _, reward, over, _, info = env.step(info["teacher"])
            total += reward
        assert tuple(walked) == sample.path and walked[0] == walked[-1]
        assert total == len(sample.path) - 1 + 2
