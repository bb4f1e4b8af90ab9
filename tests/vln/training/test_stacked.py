"""Houses trained side by side learn what each learns alone."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from benchmarks.operations import Counting
from benchmarks.pretended_graphs import PretendedGraphs
from fedsuite.arrays import module_arrays
from fedsuite.averaging.gradients import Gradients
from fedsuite.averaging.penalties import chosen_penalty
from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.batches import Batches
from fedsuite.vln.data.dataset import join_houses, make_episodes
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.model.decoders import DECODERS
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker
from fedsuite.vln.model.stacked import StackedAgent
from fedsuite.vln.stacked_world import stacked_world
from fedsuite.vln.training.learner import AgentLessons, Training, TrainingData, train_locally
from fedsuite.vln.training.objective import compute_losses
from fedsuite.vln.training.rmsprop import RMSprop
from fedsuite.vln.training.stacked import clip_together, stacked_losses, train_stacked
from tests.harness import changed

CONFIG = changed(FedVLNConfig(), batch_size=4, max_actions=8, train_max_actions=6)


class Own:
    """What a house brings to a step; its agent's weights are its own."""

    def __init__(self, house, partition, config, decoder, follows, dims):
        def factor(episodes):
            """Environment dropout: what a house's episodes see, times 0, 1 or 2."""
            shape = (len(episodes), self.world.feature_size)
            return torch.from_numpy(rng.integers(0, 3, shape).astype(np.float32)) if dims else None

        # Where all that is dropped is in eights, turns are replayed as a whole.
        action = 4 if decoder == "prompted" else 8
        sizes = AgentSizes(30, house.views.shape[-1], angle=8, hidden=16, word=6, action=action)
        self.agent = build_agent(sizes, partition, config.agent.masked_pooling, DECODERS[decoder])
        with torch.no_grad():  # larger weights than the default ones, so that decisions differ
            for p in self.agent.parameters():
                p.mul_(2.0)
        self.world = join_houses([house])

        def stream(purpose):
            return torch_generator_for(config.seed, purpose, 1, partition)

        rng = rng_for(config.seed, "mini-batches", 1, partition)
        own = config.objective
        samples = [replace(s, follows=follows) for s in house.samples["train"]]
        batches = Batches(samples, own.batch_size, own.fill_batches, rng)
        forced = make_episodes(batches.next(), self.world) if own.teacher_weight else None
        sampled = make_episodes(batches.next(), self.world) if own.kind != "none" else None
        self.drawn = tuple(e and replace(e, feature_factor=factor(e)) for e in (forced, sampled))
        rates = config.agent.dropout, config.agent.feature_dropout
        self.dropout, self.actions = Dropout(*rates, stream("dropout")), stream("sampled actions")

    def gradients(self):
        given = self.agent.named_parameters()
        return {name: None if p.grad is None else p.grad.clone() for name, p in given}


WAYS, DIMMED = "ways that are followed", "environment dropout"
CASES = {
    WAYS: {},
    DIMMED: {},
    "a2c": {},
    "imitation": {"objective": "imitation"},
    "teacher alone": {"objective": "none"},
    "sampled alone": {"teacher_weight": 0.0},
    "pooled with padding": {"masked_pooling": False},
    "no dropout": {"dropout": 0.0, "feature_dropout": 0.0},
}


@pytest.mark.parametrize(
    ("case", "decoder"), [*((case, "envdrop") for case in CASES), ("a2c", "prompted")]
)
def test_losses_and_gradients_of_houses_are_those_of_each_alone(oak, elm, case, decoder):
    """Houses with other numbers of episodes, candidates, words and decisions; streams end where they would alone."""
    config = changed(CONFIG, **CASES[case])

    def houses():
        kind = config, decoder, case == WAYS, case == DIMMED
        return [Own(house, n, *kind) for n, house in enumerate((oak, elm, oak))]

    alone, together = houses(), houses()
    want = []
    for own in alone:
        streams = own.dropout, own.actions
        losses = compute_losses(own.agent, own.world, *own.drawn, 0.2, config, *streams)
        losses.total.backward()
        want.append(losses)
    got = stacked_losses(
        StackedAgent([own.agent for own in together]),
        stacked_world([own.world for own in together]),
        [own.drawn for own in together],
        [0.2] * 3,
        config,
        [own.dropout for own in together],
        [own.actions for own in together],
    )
    sum(losses.total for losses in got).backward()
    for mine, theirs, a, b in zip(want, got, alone, together, strict=True):
        assert mine.decisions == theirs.decisions
        assert mine.imitation == pytest.approx(theirs.imitation, rel=1e-5)
        assert mine.sampled == pytest.approx(theirs.sampled, rel=1e-4, abs=1e-5)
        for one, other in ((a.dropout.generator, b.dropout.generator), (a.actions, b.actions)):
            assert torch.equal(one.get_state(), other.get_state())
        slopes, others = a.gradients(), b.gradients()
        for name, slope in slopes.items():
            if slope is None:
                assert others[name] is None or not others[name].any(), name
            else:
                assert_close(others[name], slope, rtol=1e-4, atol=5e-6, msg=name)


@pytest.fixture
def in_double():
    """Whatever is made of floating-point numbers has 64 bits."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def doubled(world):
    floats = {k: v for k, v in vars(world).items() if getattr(v, "dtype", None) == torch.float32}
    return replace(world, **{k: v.double() for k, v in floats.items()})


@pytest.mark.parametrize("recorded", [False, True])
def test_what_sets_them_apart_is_rounding_alone(oak, elm, in_double, recorded):
    """With 64 bits a millionth of a millionth of what was learnt, after steps with dropout, sampled actions and A2C."""
    config = changed(CONFIG, objective="a2c", learning_rate=1e-3)
    trained, recordings = [], Recordings(PretendedGraphs()) if recorded else None
    together = partial(train_stacked, recordings=recordings)
    for train in (lambda own: [one.all_steps() for one in own], together):
        own = [Own(house, n, config, "envdrop", False, False) for n, house in enumerate((oak, elm))]
        begun = [module_arrays(one.agent) for one in own]
        parts = [[TrainingData(house.samples["train"], 0.2)] for house in (oak, elm)]
        given = zip(own, parts, strict=True)
        lessons = [
            AgentLessons(one.agent, doubled(one.world), data, config, (1, n))
            for n, (one, data) in enumerate(given)
        ]
        rms = [RMSprop(one.agent.parameters(), 1e-3, bias_correction=True) for one in own]
        train([Training(one, o, 5) for one, o in zip(lessons, rms, strict=True)])
        trained.append([module_arrays(one.agent) for one in own])
    for start, mine, theirs in zip(begun, *trained, strict=True):
        assert mine["encoder.lstm.weight_hh_l0"].dtype == np.float64
        learnt = sum(np.square(mine[k] - start[k]).sum() for k in mine) ** 0.5
        apart = sum(np.square(mine[k] - theirs[k]).sum() for k in mine) ** 0.5
        assert learnt > 1e-2 and apart < 1e-12 * learnt, (apart, learnt)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_training_of_houses_is_that_of_each_alone(oak, elm, fresh, recorded):
    """Houses leave when they have taken their steps; optimizers that go on, penalties and clipping are their own, as are
    further parts of the data, which a speaker describes in one house and not in the other."""
    speaker = build_speaker(SpeakerSizes(30, 8, angle=8, hidden=16, word=6), seed=0).eval()
    config = changed(CONFIG, gradient_clip=0.5, learning_rate=1e-3)
    houses, steps, penalty = (oak, elm, oak), (3, 1, 4), chosen_penalty("k", "proximal", 0.1)

    def opened():
        """An agent, its optimizer and its data of each house."""
        for n, house in enumerate(houses):
            own = Own(house, n, config, "envdrop", False, False)
            optimizer = RMSprop(own.agent.parameters(), 1e-3, bias_correction=True)
            samples = house.samples["train"]
            described = TrainingData(samples, 0.6, speaker if n == 1 else None)
            parts = [TrainingData(samples, 0.2), described][: 1 + bool(n)]
            if not fresh:
                train_locally(own.agent, optimizer, own.world, parts, config, n, 1, n)
            yield own, optimizer, parts

    alone = [
        (own, optimizer, train_locally(
            own.agent, optimizer, own.world, parts, config, steps[n], 2, n, Gradients(penalty)
        ))
        for n, (own, optimizer, parts) in enumerate(opened())
    ]  # fmt: skip
    begun, together = [], []
    for n, (own, optimizer, parts) in enumerate(opened()):
        begun.append(module_arrays(own.agent))
        lessons = AgentLessons(own.agent, own.world, parts, config, (2, n))
        together.append(Training(lessons, optimizer, steps[n], Gradients(penalty)))
    reports = train_stacked(together, Recordings(PretendedGraphs()) if recorded else None)
    for (own, optimizer, want), got, start, report in zip(
        alone, together, begun, reports, strict=True
    ):
        assert (report.steps, report.decisions) == (want.steps, want.decisions)
        for field in ("imitation_loss", "sampled_loss", "gradient_norm"):
            assert getattr(report, field) == pytest.approx(getattr(want, field), rel=1e-4)
        assert optimizer.param_groups[0]["step"] == got.optimizer.param_groups[0]["step"]
        mine, theirs = module_arrays(own.agent), module_arrays(got.lessons.agent)
        learnt = sum(np.square(mine[k] - start[k]).sum() for k in mine) ** 0.5
        apart = sum(np.square(mine[k] - theirs[k]).sum() for k in mine) ** 0.5
        assert learnt > 1e-3 and apart < 5e-4 * learnt, (apart, learnt)


def test_parts_of_one_decision_add_up(oak):
    """Two parts of the data, a pass back for each, with rollouts that end after their first decision: there gradients of two
    biases that are added could be one tensor."""
    config = changed(CONFIG, objective="none", max_actions=1, dropout=0.0, feature_dropout=0.0)
    trained = []
    for train in (lambda own: [one.all_steps() for one in own], train_stacked):
        parts = [TrainingData(oak.samples["train"], 0.2)] * 2
        own = [Own(oak, n, config, "envdrop", False, False) for n in range(2)]
        lessons = [AgentLessons(one.agent, one.world, parts, config, (1, 0)) for one in own]
        sgd = [torch.optim.SGD(one.agent.parameters(), 1.0) for one in own]
        train([Training(one, o, 1) for one, o in zip(lessons, sgd, strict=True)])
        trained.append([module_arrays(one.agent) for one in own])
    for mine, theirs in zip(*trained, strict=True):
        for name, array in mine.items():
            np.testing.assert_allclose(theirs[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def test_side_by_side_houses_take_fewer_operations(oak):
    """A GPU waits for each. Those of a word and of a decision are once for all houses; draws, clipping and steps are each
    house's own. Bounds are a twelfth above what was counted."""
    counted = []
    for train, houses in (
        (lambda one: one[0].all_steps(), 1),
        (train_stacked, 2),
        (train_stacked, 6),
    ):
        own = [Own(oak, n, CONFIG, "envdrop", False, False) for n in range(houses)]
        parts = [TrainingData(oak.samples["train"], 0.2)]
        lessons = [AgentLessons(one.agent, one.world, parts, CONFIG, (1, 0)) for one in own]
        rms = [RMSprop(one.agent.parameters(), 1e-3) for one in own]
        with Counting() as operations:
            train([Training(one, o, 1) for one, o in zip(lessons, rms, strict=True)])
        counted.append(operations.number)
    one, two, six = counted
    assert one < 1_950 and two < 2_650 and six < 3_250, counted


def test_houses_are_clipped_as_each_is(oak, elm):
    """Encoder and decoder, each by itself; one house is below the limit, and one has no gradient but of its critic."""
    config = changed(CONFIG, gradient_clip=0.5)
    lessons = []
    for n, house in enumerate((oak, elm, oak)):
        own, parts = Own(house, n, config, "envdrop", False, False), house.samples["train"]
        data = [TrainingData(parts, 0.2)]
        lessons.append(AgentLessons(own.agent, own.world, data, config, (1, n)))

    def with_gradients():
        draw = torch.Generator().manual_seed(0)
        for n, one in enumerate(lessons):
            one.sums[:] = 0.0
            for name, p in one.agent.named_parameters():
                p.grad = torch.randn(p.shape, generator=draw) * (1.0, 1e-3, 1.0)[n]
                if n == 2 and not name.startswith("critic"):
                    p.grad = None

    def found():
        given = [p.grad for one in lessons for p in one.agent.parameters()]
        return [g.clone() for g in given if g is not None], [one.sums[2] for one in lessons]

    with_gradients()
    drawn, _ = found()
    for one in lessons:
        one.clip()
    alone, lengths = found()
    with_gradients()
    clip_together(lessons)
    together, others = found()
    for mine, theirs in zip(alone, together, strict=True):
        assert_close(theirs, mine, rtol=1e-6, atol=0.0)
    assert others == pytest.approx(lengths, rel=1e-6) and others[2] == 0.0 < others[1] < 0.5
    assert not torch.equal(drawn[0], together[0]), "nothing was clipped"
    for one in lessons:
        for name, p in one.agent.named_parameters():
            p.grad = torch.full_like(p, 9.0) if name.startswith("critic") else None
        one.sums[:] = 0.0
    clip_together(lessons)
    slopes, lengths = found()
    assert len(slopes) == 12 and all((g == 9.0).all() for g in slopes) and lengths == [0.0] * 3
