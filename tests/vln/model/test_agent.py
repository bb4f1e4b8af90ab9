"""The agent: sizes, dead layers, and the same numbers as a plainly written EnvDrop."""

import pytest
import torch

from fedsuite.vln.data.dataset import join_houses, make_episodes
from fedsuite.vln.model.agent import AgentSizes, LanguageEncoder, build_agent
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.training.rollout import observe, walk

ENCODER, CRITIC = 1_569_280, 263_169


def shortest(logits, teacher, row):
    return teacher


def count(module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("feature", "decoder", "dead"),
    [
        (2048, 11_415_616, 2_752_512),
        (512, 5_124_160, 1_179_648),
        (640, 5_648_448, 1_310_720),
        (1024, 7_221_312, 1_703_936),
    ],
)
def test_parameter_counts_of_the_published_sizes(feature, decoder, dead):
    """ResNet-152, CLIP ViT-B/32, CLIP RN50x4, CLIP RN50; V = 992."""
    with torch.device("meta"):
        full = build_agent(AgentSizes(992, feature, dead_layers=True), 0)
        lean = build_agent(AgentSizes(992, feature), 0)
    assert (count(full.encoder), count(full.decoder), count(full.critic)) == (
        ENCODER,
        decoder,
        CRITIC,
    )
    assert count(full) - count(lean) == dead
    assert not list(full.buffers())


def test_dead_layers_get_no_gradient_and_all_others_do(oak):
    sizes = AgentSizes(vocabulary=30, feature=8, angle=8, hidden=8, dead_layers=True)
    agent, world = build_agent(sizes, 0), join_houses([oak])
    episodes = make_episodes(oak.samples["train"][:4], world)
    limit = torch.full((4,), 10)
    out = walk(agent, world, episodes, shortest, limit)
    score = sum(s.logits[:, 1].sum() for s in out.steps)
    (score + agent.critic(torch.cat([s.hidden for s in out.steps]), NO_DROPOUT).sum()).backward()
    dead = {n for n, p in agent.named_parameters() if p.grad is None}
    assert dead == {
        "decoder.view_attention.output.weight",
        "decoder.candidate_attention.output.weight",
    }


def test_the_seed_alone_decides_the_weights():
    sizes = AgentSizes(vocabulary=9, feature=4, angle=4, hidden=4)
    torch.manual_seed(1)
    want = torch.rand(1)
    torch.manual_seed(1)
    a, b, c = (build_agent(sizes, s) for s in (3, 3, 4))
    assert torch.equal(torch.rand(1), want)
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    assert not torch.equal(a.decoder.cell.weight_ih, c.decoder.cell.weight_ih)


@pytest.mark.parametrize("wrong", [{"angle": 6}, {"hidden": 5}])
def test_sizes_that_cannot_be_built_are_refused(wrong):
    with pytest.raises(ValueError, match="multiple of 4 and hidden size even"):
        AgentSizes(vocabulary=9, feature=4, **wrong)


def encode(agent, samples, world, extra_columns=0):
    episodes = make_episodes(samples, world)
    tokens = torch.nn.functional.pad(episodes.tokens, (0, extra_columns))
    return agent.encoder(tokens, episodes.length, NO_DROPOUT)


def test_encoder_equals_the_plain_one(small_agent, plain, oak):
    samples = oak.samples["train"][:8]
    language, hidden, cell = encode(small_agent, samples, join_houses([oak]))
    for row, s in enumerate(samples):
        context, h, c = plain.read(s.tokens)
        torch.testing.assert_close(language.context[row, : len(s.tokens)], context)
        assert not language.context[row, len(s.tokens) :].any()
        assert language.padding[row].tolist() == [False] * len(s.tokens) + [True] * (
            language.padding.shape[1] - len(s.tokens)
        )
        torch.testing.assert_close(hidden[row], h)
        torch.testing.assert_close(cell[row], c)


def test_masked_pooling_does_not_depend_on_the_batchs_padding(small_agent, oak):
    world, samples = join_houses([oak]), oak.samples["train"][:6]
    _, alone, _ = encode(small_agent, samples[:1], world)
    _, padded, _ = encode(small_agent, samples[:1], world, extra_columns=9)
    _, beside, _ = encode(small_agent, samples, world)
    torch.testing.assert_close(alone, padded)
    torch.testing.assert_close(alone[0], beside[0])


def test_unmasked_pooling_sees_the_padding_as_zeros(small_agent, oak):
    world, samples = join_houses([oak]), oak.samples["train"][:1]
    small_agent.encoder.masked_pooling = False
    with torch.no_grad():  # the cell's candidates, so that some features stay below zero
        small_agent.encoder.lstm.bias_ih_l0[16:24] = -3
    language, alone, _ = encode(small_agent, samples, world)
    _, padded, _ = encode(small_agent, samples, world, extra_columns=1)
    pooled = language.context.amax(1)
    assert (pooled < 0).any(), "the case needs a feature whose maximum is negative"
    assert not torch.allclose(alone, padded)
    want = torch.tanh(small_agent.encoder.to_hidden(pooled.clamp(min=0)))
    torch.testing.assert_close(padded, want)


def test_padding_word_is_a_zero_vector_without_gradient(small_agent):
    encoder = LanguageEncoder(small_agent.sizes)
    assert not encoder.embedding.weight[0].any()
    encoder(torch.tensor([[3, 4, 0]]), torch.tensor([2]), NO_DROPOUT)[1].sum().backward()
    assert not encoder.embedding.weight.grad[0].any() and encoder.embedding.weight.grad[3].any()


def test_decisions_equal_the_plain_ones_and_stop_is_zero(small_agent, plain, oak, world):
    """Teacher-forced, in a world of two houses, all logits and states of 12 episodes."""
    samples = oak.samples["train"][:12]
    episodes = make_episodes(samples, world)
    out = walk(small_agent, world, episodes, shortest, torch.full((12,), 9))
    twins = [plain.episode(s, lambda t, logits, teacher: teacher, 9) for s in samples]
    seen = 0
    for time, step in enumerate(out.steps):
        assert not step.logits[:, 0].any()
        for i in step.active.nonzero().flatten().tolist():
            twin = twins[step.row[i]].decisions[time]
            assert torch.isinf(step.logits[i, len(twin.logits) :]).all()
            torch.testing.assert_close(step.logits[i, : len(twin.logits)], twin.logits)
            torch.testing.assert_close(step.hidden[i], twin.hidden)
            assert (step.teacher[i], step.before[i], step.after[i]) == (
                twin.teacher,
                twin.before,
                twin.after,
            )
            seen += 1
    assert seen == sum(len(t.decisions) for t in twins) > 30


def test_heading_of_the_camera_matters(small_agent, oak):
    """Two cameras at one place see the same candidates from different angles, and score them differently."""
    world = join_houses([oak])
    place = torch.tensor([0, 0])
    see = observe(world, place, torch.tensor([12, 17]), NO_DROPOUT)
    assert torch.equal(see.candidate[0], see.candidate[1])
    assert not torch.equal(see.candidate_angle[0], see.candidate_angle[1])
    language, state, cell = encode(small_agent, [oak.samples["train"][0]] * 2, world)
    logits, *_ = small_agent.decoder(see, state, cell, language, NO_DROPOUT, Gathered())
    assert not torch.allclose(logits[0], logits[1])
