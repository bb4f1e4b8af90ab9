"""Greedy walks of several houses as one batch: what a GPU scores in the time that one house's walks take it.

An episode sees its own house only, so walks are those of each house alone but for the last bits of sums, which depend on how
many rows a product has: where two actions are equally likely to these bits, another may be taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import Sample
from fedsuite.vln.environment import World
from fedsuite.vln.evaluation.houses import Walked
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.stacked_world import stacked_world
from fedsuite.vln.training.learner import walk_all


@dataclass(frozen=True)
class Walks:
    """What `walk_all` is asked for. Samples are of the world's houses; the agent has all that walk with it as they are."""

    agent: Agent
    world: World
    samples: Sequence[Sample]
    config: FedVLNConfig


def walk_together(asked: Sequence[Walks]) -> list[Walked]:
    """`walk_all` of each, those with one agent in batches of all their houses, as many times larger as there are houses; no
    house may be in two worlds."""
    found: list[Walked] = [([], [])] * len(asked)
    for agent in {id(one.agent): one.agent for one in asked}.values():
        places = [place for place, one in enumerate(asked) if one.agent is agent]
        world = stacked_world([asked[place].world for place in places]).world
        samples = [sample for place in places for sample in asked[place].samples]
        config = asked[places[0]].config
        larger = replace(config.evaluation, batch_size=len(places) * config.evaluation.batch_size)
        visited, views = walk_all(agent, world, samples, replace(config, evaluation=larger))
        begin = 0
        for place in places:
            end = begin + len(asked[place].samples)
            found[place] = visited[begin:end], views[begin:end]
            begin = end
    return found
