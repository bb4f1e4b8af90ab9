"""What a decoder's cell reads, and that its gradient gives it away: against the plain twin, in goldens, as it is sent."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsuite.privacy.attacks.inversion import gradient_rank
from fedsuite.privacy.likeness import cosine
from fedsuite.settings.config import with_keys
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, make_episodes
from fedsuite.vln.exposure.cell_inputs import Seen, Watch, plain_step, read_by, together
from fedsuite.vln.model.agent import Agent, AgentSizes, Decoder, build_agent
from fedsuite.vln.training.rmsprop import RMSprop
from tests.vln.conftest import PlainEnvDrop

BARE = with_keys(FedVLNConfig(), {"agent.dropout": 0.0, "agent.feature-dropout": 0.0})
ONE = with_keys(BARE, {"agent.max-actions": 1})


def step_of(agent: Agent, house: House, samples: slice, config: FedVLNConfig = ONE) -> Seen:
    world = join_houses([house])
    episodes = make_episodes(house.samples["train"][samples], world)
    return plain_step(copy.deepcopy(agent), world, episodes, config)


def test_one_decision_gives_the_attended_view_away(
    small_agent: Agent, oak: House, plain: PlainEnvDrop
) -> None:
    """The twin adds up the panorama by hand, and differentiates by torch alone."""
    sample = oak.samples["train"][0]
    context, state, cell = plain.read(sample.tokens)
    panorama, _, _ = plain.look(sample.path[0], sample.start_view)
    weights = torch.softmax(panorama @ (small_agent.decoder.view_attention.query.weight @ state), 0)
    attended = (weights @ panorama)[:8].detach().numpy()
    logits, *_ = plain.decide(sample.path[0], sample.start_view, context, state, cell)
    world = join_houses([oak])
    teacher = world.teacher_action(torch.tensor([sample.path[0]]), torch.tensor([sample.path[-1]]))
    small_agent.zero_grad()
    torch.nn.functional.cross_entropy(logits[None], teacher).backward()
    by_hand = small_agent.decoder.cell.weight_ih.grad.numpy()
    seen = step_of(small_agent, oak, slice(1))
    assert seen.views == pytest.approx(attended[None], abs=1e-6)
    assert seen.weight == pytest.approx(by_hand, abs=1e-6)
    assert cosine(seen.divided(), attended) == pytest.approx(1, abs=1e-6)
    assert gradient_rank(seen.weight) == 1


@pytest.fixture
def wide(oak: House) -> tuple[Agent, House]:
    """Oak with 64 random numbers a view."""
    views = np.random.default_rng(0).normal(size=(*oak.views.shape[:2], 64)).astype(np.float32)
    sizes = AgentSizes(vocabulary=30, feature=64, angle=12, hidden=32, word=6, action=8)
    agent = build_agent(sizes, seed=5)
    with torch.no_grad():
        for p in agent.parameters():
            p.mul_(2.0)
    return agent, replace(oak, views=views)


@pytest.mark.parametrize(
    ("samples", "most", "count"),
    [(slice(1), 1, 1), (slice(6), 1, 6), (slice(2, 10), 4, 25), (slice(18), 35, 60)],
)
def test_the_rank_of_the_gradient_counts_decisions(
    wide: tuple[Agent, House], samples: slice, most: int, count: int
) -> None:
    seen = step_of(*wide, samples, with_keys(BARE, {"agent.max-actions": most}))
    assert (len(seen.views), gradient_rank(seen.weight)) == (count, count)


def test_several_decisions_come_as_a_mixture(wide: tuple[Agent, House]) -> None:
    parts = [step_of(*wide, slice(i, i + 1)) for i in range(3)]
    summed, batch = together(parts), step_of(*wide, slice(3))
    assert summed.views == pytest.approx(batch.views, abs=1e-5)
    assert summed.weight / 3 == pytest.approx(batch.weight, abs=1e-6)  # the loss is a mean
    assert summed.like(summed.divided()) == pytest.approx(batch.like(batch.divided()), abs=1e-3)
    assert 0.2 < batch.like(batch.divided()) < 0.99
    assert all(part.like(part.divided()) > 0.999999 for part in parts)


@pytest.mark.parametrize("corrected", [True, False])
def test_a_first_step_of_rmsprop_sends_more_than_signs(
    wide: tuple[Agent, House], corrected: bool
) -> None:
    """The project's optimizer, in float32: signs tell less than what it lacks of full steps, which its epsilon makes; of
    gradients that are not too large, here a hundredth."""
    agent, house = wide
    plain = step_of(agent, house, slice(1))
    cell = copy.deepcopy(agent.decoder.cell)
    before = [p.detach().clone() for p in (cell.weight_ih, cell.bias_ih)]
    cell.weight_ih.grad, cell.bias_ih.grad = (
        torch.tensor(g / 100) for g in (plain.weight, plain.bias)
    )
    RMSprop([cell.weight_ih, cell.bias_ih], 1e-3, corrected).step()
    after = [p.detach() for p in (cell.weight_ih, cell.bias_ih)]
    weight, bias = ((a - b).double().numpy() for a, b in zip(after, before, strict=True))
    sent = replace(plain, weight=weight, bias=bias)
    assert 0.6 < sent.like(sent.signs()) < 0.9
    assert sent.like(sent.divided()) == pytest.approx(sent.like(sent.signs()), abs=0.02)
    assert sent.like(sent.undone(1e-3, corrected)) > 0.97
    assert sent.like(sent.undone(1e-3, not corrected)) < 0.9


def test_where_nothing_moved_nothing_is_told(wide: tuple[Agent, House]) -> None:
    seen = step_of(*wide, slice(1))
    still = replace(seen, weight=0 * seen.weight, bias=0 * seen.bias)
    for told in (still.divided(), still.signs(), still.undone(1e-3, True)):
        assert not told.any() and still.like(told) == 0.0


def test_a_decoder_of_one_s_own_is_not_read() -> None:
    class Other(Decoder):
        def __init__(self, sizes: AgentSizes) -> None:
            super().__init__()

    agent = build_agent(AgentSizes(30, 8, angle=8, hidden=6, word=2, action=2), 0, decoder=Other)
    assert read_by(agent) is None
    assert Watch().on(agent) is agent and not agent.decoder._forward_pre_hooks
