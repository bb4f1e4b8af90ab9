"""What the scores of a FedRL run are scores of: which world, which maps or texts, how many episodes."""

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.roster.members import CONTENT, Roster

# What an agent remembers, or reads words as, is no part of the world that it is tested in.
OF_THE_LEARNER = ("history", "first-frame", "score", "train-episodes", "valid-episodes", CONTENT)


def scored_on(config: FedRLConfig, roster: Roster | None) -> dict[str, str]:
    """Facts in words, whoever plays."""
    data, world, rules = config.data, config.world, config.published.rules
    grid = world.kind == "gridworld"
    what = f"{world.grid_size} x {world.grid_size} maps" if grid else f"{data.text_source} texts"
    found = {"world": what, "source": "of data.dir" if data.dir else "generated"}
    if not data.dir:
        found["seed"] = f"of seed {config.data_seed}"
    if grid:
        found["rules"] = f"distance {rules.distance}, starts {rules.starts}"
        if roster is None:
            found["limit"] = f"step-limit {world.step_limit}"
        found["rewards"] = (
            f"rewards {world.step_reward:g}, {world.obstacle_reward:g}, {world.meeting_reward:g}"
        )
        found["episodes"] = f"tests of {config.evaluation.episodes} episodes"
    else:
        found["task"] = f"{world.task} of actions"
        found["rewards"] = f"rewards of {world.text_reward:g}, {world.last_word_bonus:g}"
    found["fold"] = f"fold {data.fold}"
    for key, value in sorted(roster.facts.items()) if roster else ():
        if key not in OF_THE_LEARNER:
            found.setdefault(f"fact {key}", f"{key} {value}")
    return found
