"""Decisions that are replayed from recordings are those taken by launching every operator."""

import pytest
import torch
from torch.testing import assert_close

from benchmarks.pretended_graphs import PretendedGraphs
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.stacked import StackedAgent
from fedsuite.vln.stacked_world import stacked_world
from fedsuite.vln.training.stacked import stacked_losses
from tests.harness import changed
from tests.vln.training.test_stacked import CASES, CONFIG, DIMMED, WAYS, Own


def steps(houses, config, recordings, count):
    """Gradients of so many steps, before each of which the weights change."""
    worlds = stacked_world([own.world for own in houses])
    found = []
    for number in range(count):
        losses = stacked_losses(
            StackedAgent([own.agent for own in houses], recordings),
            worlds,
            [own.drawn for own in houses],
            [0.2] * len(houses),
            config,
            [own.dropout for own in houses],
            [own.actions for own in houses],
        )
        sum(one.total for one in losses).backward()
        found.append(([own.gradients() for own in houses], [one.decisions for one in losses]))
        with torch.no_grad():
            for own in houses:
                for p in own.agent.parameters():
                    p.grad = None
                    p.mul_(1.0 + 0.01 * number)
    return found


CASES = {**CASES, "many rows": {"objective": "a2c", "batch_size": 24, "train_max_actions": 12}}


@pytest.mark.parametrize(
    ("case", "decoder"), [*((case, "envdrop") for case in CASES), ("a2c", "prompted")]
)
def test_gradients_are_those_of_launched_decisions(oak, elm, case, decoder):
    config = changed(CONFIG, **CASES[case])
    kind = config, decoder, case == WAYS, case == DIMMED

    def houses():
        return [Own(house, n, *kind) for n, house in enumerate((oak, elm, oak))]

    graphs = PretendedGraphs()
    replayed = steps(houses(), config, Recordings(graphs), 3)
    launched = steps(houses(), config, None, 3)
    assert graphs.number and graphs.replays > 1.5 * graphs.number
    for (slopes, decisions), (wanted, taken) in zip(replayed, launched, strict=True):
        assert decisions == taken
        for own, other in zip(slopes, wanted, strict=True):
            for name, slope in other.items():
                if slope is None:
                    assert own[name] is None or not own[name].any(), name
                else:
                    assert_close(own[name], slope, rtol=1e-4, atol=1e-6, msg=name)
