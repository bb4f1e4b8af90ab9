"""Back-translation: one mask for everything in a mini-batch, new words at every visit, a speaker that stays as it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from fedsuite.arrays import fingerprint, module_arrays
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.batches import Batches
from fedsuite.vln.data.dataset import join_houses, make_episodes
from fedsuite.vln.data.instructions import EOS
from fedsuite.vln.data.sampled_paths import sampled_paths
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker
from fedsuite.vln.training import back_translation, rollout
from fedsuite.vln.training.back_translation import back_translate
from fedsuite.vln.training.learner import TrainingData, train_locally
from fedsuite.vln.training.rmsprop import RMSprop
from tests.harness import changed

SIZES = AgentSizes(30, 8, angle=8, hidden=16, word=6, action=4)
CONFIG = changed(
    FedVLNConfig(),
    batch_size=4,
    max_actions=8,
    learning_rate=1e-3,
    max_generated_length=9,
    gradient_clip=1e9,
)
BOS = 29


@pytest.fixture
def speaker():
    """Large weights, so that descriptions differ."""
    speaker = build_speaker(SpeakerSizes(30, 8, angle=8, hidden=16, word=6), seed=0)
    with torch.no_grad():
        for p in speaker.parameters():
            p.mul_(4.0)
    return speaker


@pytest.fixture
def calls(monkeypatch):
    """Replace the speaker's words by the path itself; keep what it was asked."""
    asked = []

    def describe(speaker, world, samples, max_words, factor=None):
        asked.append((speaker, [s.instr_id for s in samples], max_words, factor))
        return [np.array([BOS, *(3 + p for p in s.path), EOS]) for s in samples]

    monkeypatch.setattr(back_translation, "describe", describe)
    return asked


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_batch_is_its_paths_with_the_speakers_words_and_mask(oak, elm, calls):
    world, samples = join_houses([elm, oak]), list(sampled_paths(oak, 0, 0))[:5]
    assert len(samples) == 5
    got = back_translate("speaker", world, samples, CONFIG.objective, stream())
    told = [replace(s, tokens=np.array([BOS, *(3 + p for p in s.path), EOS])) for s in samples]
    want = make_episodes(told, world)
    for name in ("tokens", "length", "start", "start_view", "goal"):
        assert torch.equal(getattr(got, name), getattr(want, name)), name
    [(who, ids, limit, factor)] = calls
    assert (who, ids, limit) == ("speaker", [s.instr_id for s in samples], 9)
    assert factor.shape == (5, 8) and torch.equal(factor, got.feature_factor)
    assert (factor == factor[0]).all()
    assert want.feature_factor is None


def test_masks_keep_their_share_and_the_expectation(oak, calls):
    """0.4 of 256 is 102: entries are 0 or 256 / 154, with mean 1; every mini-batch has its own."""
    world, generator = join_houses([oak]), stream()
    masks = torch.stack(
        [
            back_translate(
                "", world, oak.samples["train"][:2], CONFIG.objective, generator
            ).feature_factor[0]
            for _ in range(400)
        ]
    )
    assert {round(v, 5) for v in masks.unique().tolist()} == {0.0, round(256 / 154, 5)}
    assert masks.mean().item() == pytest.approx(1, abs=0.06)
    assert len({tuple(m) for m in masks.tolist()}) > 150


def test_no_environment_dropout_changes_no_feature(oak, calls):
    config = changed(CONFIG, environment_dropout=0.0)
    got = back_translate(
        "", join_houses([oak]), oak.samples["train"][:3], config.objective, stream()
    )
    assert torch.equal(got.feature_factor, torch.ones(3, 8))


def visit(house, parts, config=CONFIG, steps=2):
    agent = build_agent(SIZES, seed=0)
    with torch.no_grad():
        for p in agent.parameters():
            p.mul_(2.0)
    optimizer = RMSprop(agent.parameters(), config.objective.learning_rate)
    report = train_locally(agent, optimizer, join_houses([house]), parts, config, steps, 1, 0)
    return agent, report


def test_everybody_sees_the_same_mask_at_every_step(oak, calls, monkeypatch):
    """What agents see is the views times the mask that the speaker got, and nothing else is dropped."""
    real, world, seen = rollout.observe, join_houses([oak]), []

    def observe(world_, viewpoint, view, dropout, factor=None):
        see = real(world_, viewpoint, view, dropout, factor)
        near = world.observe(viewpoint, view)
        for b, place in enumerate(viewpoint.tolist()):
            for k in range(int(near.count[b])):
                angle = world.relative_angle[place * 12 + int(view[b]) % 12, k]
                assert torch.equal(see.candidate_angle[b, k], angle)
                assert torch.equal(
                    see.candidate[b, k], world.views[place, near.view[b, k]] * factor[b]
                )
            assert torch.equal(see.views[b], world.views[place] * factor[b])
        seen.append(factor)
        return see

    monkeypatch.setattr(rollout, "observe", observe)
    samples = sampled_paths(oak, 0, 0)
    config = changed(CONFIG, feature_dropout=0.5, max_actions=7)
    visit(oak, [TrainingData(samples, 0.6, "speaker")], config)
    assert len(calls) == 4, "two mini-batches in each of two steps"
    masks = [tuple(factor[0].tolist()) for *_, factor in calls]
    assert len(set(masks)) == 4 and len(seen) > 8
    step = 0
    for factor in seen:
        if len(factor) == 8 and tuple(factor[0].tolist()) != masks[step]:
            step += 2
        rows = {tuple(r) for r in factor.tolist()}
        assert rows <= {masks[step], masks[step + 1]}
        if len(factor) == 8:  # before anybody has left: four forced rows, then four sampled ones
            assert [tuple(r) for r in factor.tolist()] == [masks[step]] * 4 + [masks[step + 1]] * 4
    assert step == 2


def test_two_feeds_equal_the_plain_agent_in_two_houses(
    oak, plain, plain_losses, calls, monkeypatch
):
    """0.2 L(human words, house as it is) + 0.6 L(generated words, house under the mask), differentiated plainly."""
    config = changed(CONFIG, objective="none", batch_size=100, dropout=0.0, feature_dropout=0.0)
    human, paths = oak.samples["train"], sampled_paths(oak, 0, 0)
    got = []
    monkeypatch.setattr(
        RMSprop, "step", lambda self: got.extend(p.grad for p in self.param_groups[0]["params"])
    )
    agent, report = visit(
        oak, [TrainingData(human, 0.2), TrainingData(paths, 0.6, "speaker")], config, steps=1
    )
    assert len(calls) == 1
    gradients = dict(zip(dict(agent.named_parameters()), got, strict=True))
    assert sorted(calls[0][1]) == sorted(s.instr_id for s in paths)
    masked = replace(oak, views=np.array(oak.views) * calls[0][3][0].numpy())
    told = [replace(s, tokens=np.array([BOS, *(3 + p for p in s.path), EOS])) for s in paths]
    parts = []
    for house, samples in ((oak, human), (masked, told)):
        twin = type(plain)(agent, house)
        parts.append(plain_losses[0]([twin.episode(s, lambda t, x, a: a, 8) for s in samples]))
    assert report.imitation_loss == pytest.approx(sum(p.item() for p in parts), rel=1e-5)
    total = 0.2 * parts[0] + 0.6 * parts[1]
    names = [n for n, _ in agent.named_parameters() if not n.startswith("critic.")]
    wanted = torch.autograd.grad(total, [dict(agent.named_parameters())[n] for n in names])
    for name, gradient in zip(names, wanted, strict=True):
        scale = max(gradient.abs().max().item(), 1e-3)
        assert_close(gradients[name], gradient, rtol=1e-3, atol=2e-5 * scale, msg=name)


def test_draws_of_the_mask_leave_the_other_streams_alone(oak, calls, monkeypatch):
    """Human instructions first: their mini-batches are the same with and without a second part."""
    drawn = []
    real = Batches.next

    def spy(self):
        batch = real(self)
        drawn.append((id(self), [s.instr_id for s in batch]))
        return batch

    monkeypatch.setattr(Batches, "next", spy)
    human, paths = oak.samples["train"], sampled_paths(oak, 0, 0)
    visit(oak, [TrainingData(human, 0.2)])
    alone = [ids for _, ids in drawn]
    drawn.clear()
    visit(oak, [TrainingData(human, 0.2), TrainingData(paths, 0.6, "speaker")])
    first = drawn[0][0]
    assert [ids for who, ids in drawn if who == first] == alone and len(drawn) == 2 * len(alone)


def test_weight_zero_draws_no_forced_batch(oak, calls):
    paths = sampled_paths(oak, 0, 0)
    _, report = visit(oak, [TrainingData(paths, 0.0, "speaker")], steps=3)
    assert len(calls) == 3 and report.imitation_loss == 0 and report.sampled_loss != 0


@pytest.mark.slow
def test_a_real_speaker_stays_as_it_is(oak, speaker):
    """No gradient, no change, no dropout; its words follow the mask."""
    before, paths = fingerprint(module_arrays(speaker)), sampled_paths(oak, 0, 0)
    speaker.train()
    agent, report = visit(
        oak, [TrainingData(oak.samples["train"], 0.2), TrainingData(paths, 0.6, speaker)]
    )
    assert np.isfinite(report.gradient_norm) and report.gradient_norm > 0
    assert all(p.grad is None for p in speaker.parameters())
    assert fingerprint(module_arrays(speaker)) == before and speaker.training
    again, _ = visit(
        oak, [TrainingData(oak.samples["train"], 0.2), TrainingData(paths, 0.6, speaker)]
    )
    assert fingerprint(module_arrays(agent)) == fingerprint(module_arrays(again))
    world = join_houses([oak])
    texts = []
    for seed in range(6):
        got = back_translate(speaker, world, list(paths)[:5], CONFIG.objective, stream(seed))
        assert (got.tokens[:, 0] == BOS).all() and int(got.length.max()) <= 1 + 9
        last = got.tokens[torch.arange(5), got.length - 1]
        assert (last == EOS).all() and ((got.tokens == EOS).sum(1) == 1).all()
        texts.append(got.tokens.tolist())
    assert any(t != texts[0] for t in texts)


def test_a_real_speaker_describes_the_masked_house(oak, speaker):
    """Its words under a mask are its words in a house that looks so."""
    world, paths = join_houses([oak]), list(sampled_paths(oak, 0, 0))[:6]
    got = back_translate(speaker, world, paths, CONFIG.objective, stream(1))
    masked = replace(oak, views=np.array(oak.views) * got.feature_factor[0].numpy())
    plain = changed(CONFIG, environment_dropout=0.0)
    want = back_translate(speaker, join_houses([masked]), paths, plain.objective, stream(1))
    assert torch.equal(got.tokens, want.tokens)
