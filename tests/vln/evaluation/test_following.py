"""One walk looked at closely: it is evaluation's, and its attention is what the agent read with."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample, join_houses
from fedsuite.vln.data.instructions import UNK
from fedsuite.vln.evaluation.following import STOP_HERE, InstructionWalk, follow
from fedsuite.vln.evaluation.metrics import episode_metrics
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.training.learner import walk_all
from tests.harness import changed

CONFIG = changed(FedVLNConfig(), max_actions=6)


@pytest.fixture
def followed(small_agent: Agent, oak: House) -> Callable[..., InstructionWalk]:
    """Follow a sample of oak."""
    world = join_houses([oak])

    def follow_in_oak(sample: Sample, annotated: bool = True) -> InstructionWalk:
        return follow(small_agent.eval(), world, oak, sample, CONFIG, annotated)

    return follow_in_oak


def test_all_walks_of_a_house_are_those_of_evaluation(followed, small_agent, oak):
    samples = oak.samples["train"]
    visited, views = walk_all(small_agent.eval(), join_houses([oak]), samples, CONFIG)
    expected = episode_metrics(oak.graph.distance_m, visited, [s.path for s in samples])
    walks = [followed(s) for s in samples]
    ids = oak.graph.viewpoint_ids
    assert [list(w.viewpoints) for w in walks] == [[ids[v] for v in rows] for rows in visited]
    assert [len(w.heading_rad) for w in walks] == list(map(len, views))
    found = {k: [w.scores[k] for w in walks] for k in walks[0].scores}
    assert found.keys() == expected.keys()
    assert all(found[k] == values.tolist() for k, values in expected.items())
    assert {w.stopped for w in walks} == {True, False}, "both ends have to occur"


def test_decisions_lead_where_the_walk_goes(followed, oak):
    graph = oak.graph
    for walk in map(followed, oak.samples["train"][:8]):
        assert len(walk.decisions) == len(walk.viewpoints) - (not walk.stopped)
        for here, decision in zip(walk.viewpoints, walk.decisions, strict=False):
            assert decision.possible[0] == STOP_HERE
            neighbours = {graph.index[v] for v in decision.possible[1:]}
            assert neighbours == set(np.flatnonzero(graph.edge[graph.index[here]]))
            assert decision.probability.sum() == pytest.approx(1)
            assert decision.probability.argmax() == decision.chosen
        chosen = [d.possible[d.chosen] for d in walk.decisions]
        assert chosen == [*walk.viewpoints[1:], *[STOP_HERE] * walk.stopped]
        rows = [graph.index[v] for v in walk.viewpoints]
        assert walk.positions_m.tolist() == graph.position_m[rows].tolist()
        assert walk.lengths_m.sum() == pytest.approx(walk.scores["tl"])


def test_attention_is_what_the_agent_read_with(followed, oak, monkeypatch):
    weights: list[Tensor] = []
    read = SharedContext.read

    def noting(self: SharedContext, query: Tensor) -> Tensor:
        weights.append(torch.softmax(self.context[0] @ query[0], 0))
        return read(self, query)

    monkeypatch.setattr(SharedContext, "read", noting)
    walk = followed(oak.samples["train"][0])
    assert walk.attention.shape == (len(walk.decisions), len(walk.words))
    np.testing.assert_allclose(walk.attention, torch.stack(weights).numpy(), rtol=1e-5)
    assert np.ptp(walk.attention, axis=1).max() > 1e-3, "attention has to prefer some words"


def test_without_a_reference_nothing_is_scored(followed, oak):
    sample = oak.samples["train"][0]
    alone = followed(replace(sample, path=sample.path[:1]), annotated=False)
    assert alone.scores == {} and alone.reference == () and alone.instr_id == ""
    assert alone.viewpoints == followed(sample).viewpoints


def test_words_as_the_agent_read_them(followed, oak):
    sample = oak.samples["train"][0]
    assert followed(sample).words[0] == "<BOS>" and followed(sample).words[-1] == "<EOS>"
    text = "Xyzzy the door, xyzzy the door."
    tokens = np.array([29, UNK, 3, 4, 5, UNK, 2])
    walk = followed(replace(sample, text=text, tokens=tokens))
    assert walk.words == ("<BOS>", "xyzzy", "the", "door", ",", "xyzzy", "<EOS>")
    assert walk.unknown == ("xyzzy",) and walk.left_out == 3
