"""Decisions that are replayed from recordings are those taken by launching every operator."""

import random

import pytest
import torch
from torch.testing import assert_close

from benchmarks.pretended_graphs import PretendedGraphs
from fedsuite.vln.model.agent import AgentSizes, Panorama, build_agent
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.lstm import fused_update, recurrent, summed_update
from fedsuite.vln.model.recording import Recordings, rounded_rows
from fedsuite.vln.model.replayed_turns import Turn
from fedsuite.vln.model.replayed_words import recurrent_replayed, rounded_sizes
from fedsuite.vln.model.stacked import StackedAgent
from fedsuite.vln.model.stacked_batch import StackedBatch
from fedsuite.vln.model.stacked_dropout import StackedDropout, StackedPolicy
from fedsuite.vln.model.walkers import Walkers
from fedsuite.vln.stacked_world import stacked_episodes, stacked_world
from fedsuite.vln.training.objective import joined
from fedsuite.vln.training.stacked import stacked_losses
from tests.gpu_kernels import KERNELS, on_the_cpu
from tests.harness import changed
from tests.vln.training.test_stacked import CASES, CONFIG, DIMMED, WAYS, Own


def losses_of(houses, config, recordings):
    return stacked_losses(
        StackedAgent([own.agent for own in houses], recordings),
        stacked_world([own.world for own in houses]),
        [own.drawn for own in houses],
        [0.2] * len(houses),
        config,
        [own.dropout for own in houses],
        [own.actions for own in houses],
    )


def steps(houses, config, recordings, count):
    """Gradients of so many steps, before each of which the weights change; at the last there are fewer houses."""
    found = []
    for number in range(count):
        houses = houses[: len(houses) - (number == count - 1)]
        losses = losses_of(houses, config, recordings)
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
        return [Own(house, n, *kind) for n, house in enumerate((oak, elm, oak, elm))]

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
                    assert_close(own[name], slope, rtol=1e-4, atol=5e-6, msg=name)


def test_what_has_been_recorded_is_recorded_once(oak, elm):
    """Though weights differ, and mini-batches by an episode and some words."""
    graphs = PretendedGraphs()
    recordings, counted = Recordings(graphs), []
    for size in (4, 4, 3):
        config = changed(CONFIG, objective="none", batch_size=size, feature_dropout=0.0)
        houses = [Own(h, n, config, "envdrop", False, False) for n, h in enumerate((oak, elm))]
        losses = losses_of(houses, config, recordings)
        sum(one.total for one in losses).backward()
        counted.append((graphs.number, graphs.replays))
    (number, replays), *others = counted
    assert number > 4 and others[-1][1] > 2.5 * replays
    assert [n for n, _ in others] == [number, number]


class Walked:
    """Decisions of s houses with B rows each, K candidates and L words, and the gradients of random slopes."""

    SIZES = AgentSizes(30, feature=8, angle=8, hidden=16, word=6, action=4)

    def __init__(self, seed, recordings, houses, rows, candidates, words, decisions=3):
        draw = torch.Generator().manual_seed(seed)
        batch = StackedBatch([rows] * houses, torch.device("cpu"))
        streams = [Dropout(0.5, 0.0, torch.Generator().manual_seed(h)) for h in range(houses)]
        dropout, gathered = StackedDropout(streams, batch), Gathered()

        def some(*shape):
            return torch.randn(houses * rows, *shape, generator=draw)

        self.agents = [build_agent(self.SIZES, seed + h) for h in range(houses)]
        self.begun = [x.requires_grad_() for x in (some(words, 16), some(16), some(16))]
        padding = (some(words) > 1.0).index_fill_(1, torch.tensor(0), False)
        language, state, cell = SharedContext(self.begun[0], padding), *self.begun[1:]
        decoder, total, self.logits = StackedAgent(self.agents, recordings).decoder, 0.0, []
        for _ in range(decisions):
            absent = (some(candidates) > 1.0).index_fill_(1, torch.tensor(0), False)
            views = some(36, 8), some(36, 4), some(candidates, 8), some(candidates, 4)
            see = Panorama(*views, absent, some(4), absent.long())
            logits, hidden, cell, state = decoder(see, state, cell, language, dropout, gathered)
            self.logits.append(logits.detach())
            there = logits.masked_fill(logits == float("-inf"), 0.0)
            total = total + (there * some(1 + candidates)).sum() + (hidden * some(16)).sum()
        self.total = total + (cell * some(16)).sum()

    def gradients(self):
        self.total.backward()
        decoders = [p for agent in self.agents for p in agent.decoder.parameters()]
        return [x.grad for x in (*self.begun, *decoders)]


# Houses, rows, candidates, words: others in turn, of which each leaves what the next must not read.
SHAPES = [(4, 8, 12, 30), (3, 8, 4, 11), (4, 16, 2, 40), (3, 16, 16, 7), (4, 8, 5, 18)]


def test_decisions_of_other_shapes_leave_nothing_behind():
    graphs = PretendedGraphs()
    recordings = Recordings(graphs)
    for seed, shape in enumerate(SHAPES * 2):
        decisions = 3 - seed % 2  # the last has no gradient of the state that it leaves
        replayed, launched = (Walked(seed, own, *shape, decisions) for own in (recordings, None))
        assert_close(replayed.logits, launched.logits, rtol=1e-4, atol=1e-5)
        for own, other in zip(replayed.gradients(), launched.gradients(), strict=True):
            assert_close(own, other, rtol=1e-4, atol=1e-4)
    assert graphs.number == 2 * 2 * 3, "two kinds of rows, three decisions, forward and back"


@pytest.mark.parametrize("rows", [8, 16])
def test_gradients_are_not_taken_of_what_was_overwritten(rows):
    """By a walk with other weights, of as many rows or of more."""
    recordings = Recordings(PretendedGraphs())
    first = Walked(0, recordings, 2, 8, 5, 9)
    Walked(1, recordings, 2, rows, 5, 9).gradients()
    with pytest.raises(RuntimeError, match="overwritten by another before its gradients were"):
        first.gradients()


@pytest.mark.parametrize("update", [summed_update, fused_update])
def test_words_of_other_sentences_leave_nothing_behind(update):
    """What is made of hidden states and of cells, of either alone, and of other numbers of rows and words."""
    with on_the_cpu() as calls:
        read_sentences(update)
    assert {*calls} == ({*KERNELS} if update is fused_update else set())


def read_sentences(update):
    graphs = PretendedGraphs()
    recordings = Recordings(graphs)
    for seed, (houses, longest, used) in enumerate([(4, 30, 0), (3, 9, 1), (4, 17, 0), (3, 30, 2)] * 2):  # fmt: skip
        draw = torch.Generator().manual_seed(seed)
        sizes = rounded_sizes(torch.linspace(20 + seed, 1, longest).long()).tolist()
        found = []
        inputs, weight = (
            torch.randn(2 * houses, n, m, generator=draw) for n, m in ((sum(sizes), 16), (16, 4))
        )
        slope = torch.randn(2 * houses, sum(sizes), 4, generator=draw)
        for own in (recordings, None):
            given = [x.clone().requires_grad_() for x in (inputs, weight)]
            gathered = Gathered()
            if own is None:
                read = recurrent(*given, sizes, gathered)[:2]
            else:
                read = recurrent_replayed(*given, sizes, gathered, update, own)
            states, cells = (torch.cat(x, 1) for x in read)
            made = (states, cells, states + cells.sin())[used]
            found.append((made, *torch.autograd.grad(made, given, slope)))
        for one, other in zip(*found, strict=True):
            assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert graphs.replays > 2 * graphs.number


def turn_of(own, recordings):
    """The first turn of a house's batch, which samples, and its walkers."""
    world, (forced, sampled) = own.world, own.drawn
    episodes, number = joined(forced, sampled)
    batch = StackedBatch([len(episodes)], world.device, rounded_rows)
    episodes = stacked_episodes([episodes], [0], batch.rows)
    row = torch.arange(len(episodes))
    places = episodes.start, episodes.start_view, episodes.goal
    at = Walkers(row, batch.present, *places, torch.zeros(1), torch.zeros(1), None, None)
    policy = StackedPolicy(row < number, batch, [own.actions])
    dropout = StackedDropout([own.dropout], batch)
    return Turn(recordings, world, at, policy, dropout, own.agent.decoder.dropped), at


def test_what_other_walks_left_in_memory_leads_nowhere(oak):
    """Rows behind those of a walk may hold places that its world has not; actions of the others are as without."""
    found = []
    for left in (0, 10_000):
        own, recordings = (
            Own(oak, 0, CONFIG, "envdrop", False, False),
            Recordings(PretendedGraphs()),
        )
        turn, at = turn_of(own, recordings)
        rows = 2 * len(at.row)  # of two houses, of which one is there
        inputs = turn.inputs(recordings, 2, rows, 0)
        inputs["goal"].fill_(left)
        turn.write(inputs)
        see, dropout = turn.see(inputs)
        logits = torch.linspace(-1, 1, rows * (1 + turn.candidates)).view(rows, -1)
        logits[:, 1:].masked_fill_(see.padding, float("-inf"))
        done = turn.act(inputs, logits, dropout)
        found.append([x[: len(at.row)] for x in done])
        wanted = own.world.teacher_action(at.viewpoint, at.goal)
        assert torch.equal(done.teacher[: len(at.row)], wanted)
        forced = turn.flags["forced"] & turn.flags["present"]
        assert torch.equal(done.action[: len(at.row)][forced], wanted[forced])
    for clean, after in zip(*found, strict=True):
        assert torch.equal(clean, after)


@pytest.mark.parametrize("seed", range(2))
def test_rows_that_are_left_from_another_walk_lead_nowhere(oak, elm, seed):
    """Other houses, fewer of them, with fewer rows: what is left in memory is places of other worlds."""
    draw, recordings = random.Random(seed), Recordings(PretendedGraphs())
    for number in range(6):
        config = changed(CONFIG, batch_size=draw.choice([1, 4, 9]))
        chosen = draw.choices([oak, elm], k=draw.choice([3, 4]))
        found = []
        for own in (recordings, None):
            houses = [
                Own(h, n + number, config, "envdrop", False, False) for n, h in enumerate(chosen)
            ]
            losses = losses_of(houses, config, own)
            sum(one.total for one in losses).backward()
            found.append(
                ([float(one.total.detach()) for one in losses], [one.decisions for one in losses])
            )
        (replayed, taken), (launched, decisions) = found
        assert taken == decisions and replayed == pytest.approx(launched, rel=1e-4)
