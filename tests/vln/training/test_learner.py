"""Local training and greedy evaluation of a house."""

import numpy as np
import pytest
import torch

from fedsuite.arrays import fingerprint, module_arrays
from fedsuite.averaging.optimizer_state import optimizer_arrays
from fedsuite.randomness import rng_for, torch_generator_for
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.batches import Batches
from fedsuite.vln.data.dataset import House, join_houses, make_episodes
from fedsuite.vln.evaluation.metrics import episode_metrics
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.training.learner import TrainingData, train_locally, walk_all
from fedsuite.vln.training.objective import compute_losses
from fedsuite.vln.training.rmsprop import RMSprop
from tests.harness import changed

CONFIG = changed(
    FedVLNConfig(), batch_size=4, max_actions=8, learning_rate=1e-3, evaluation_batch_size=4
)


def agent_for(house: House):
    size = house.views.shape[-1]
    return build_agent(AgentSizes(30, size, angle=8, hidden=16, word=6, action=4), seed=0)


def visit(house, config=CONFIG, steps=3, round=1, partition=0):
    agent = agent_for(house)
    optimizer = RMSprop(
        agent.parameters(), config.objective.learning_rate, config.objective.bias_correction
    )
    parts = [TrainingData(house.samples["train"], config.objective.teacher_weight)]
    report = train_locally(
        agent, optimizer, join_houses([house]), parts, config, steps, round, partition
    )
    return agent, optimizer, report


@pytest.mark.slow
def test_a_visit_is_a_function_of_seed_round_and_partition(oak):
    def run(**changes):
        seed = changes.pop("seed", 0)
        return fingerprint(module_arrays(visit(oak, changed(CONFIG, seed=seed), **changes)[0]))

    assert run() == run()
    others = {run(), run(seed=1), run(round=2), run(partition=1), run(steps=2)}
    assert len(others) == 5


def test_report(oak):
    agent, optimizer, report = visit(oak)
    assert report.steps == optimizer.param_groups[0]["step"] == 3
    assert (
        report.imitation_loss > 0 and report.gradient_norm > 0 and np.isfinite(report.sampled_loss)
    )
    assert 3 * 2 * 4 <= report.decisions <= 3 * 2 * 4 * 8
    assert all(p.isfinite().all() for p in agent.parameters())


def test_no_steps_change_nothing(oak):
    agent, _, report = visit(oak, steps=0)
    assert report.steps == 0 and report.imitation_loss == 0
    assert fingerprint(module_arrays(agent)) == fingerprint(module_arrays(agent_for(oak)))


@pytest.mark.slow
@pytest.mark.parametrize("fill", [False, True])
@pytest.mark.parametrize("objective", ["a2c", "imitation", "none"])
def test_a_house_with_fewer_samples_than_a_batch_trains(elm, fill, objective):
    config = changed(CONFIG, batch_size=64, fill_batches=fill, objective=objective)
    agent, _, report = visit(elm, config, steps=2)
    assert all(p.isfinite().all() for p in agent.parameters())
    assert (report.decisions > 2 * 2 * 64) == fill or objective == "none"
    assert fingerprint(module_arrays(agent)) != fingerprint(module_arrays(agent_for(elm)))


def test_only_sampled_episodes(oak):
    _, _, report = visit(oak, changed(CONFIG, teacher_weight=0.0))
    assert report.imitation_loss == 0 and report.sampled_loss != 0


def losses_by_name(agent, world, samples, weight, config, suffix):
    """Losses of one step of one part, every stream opened here by its name."""

    def stream(name):
        return torch_generator_for(config.seed, name + suffix, 4, 2)

    order = rng_for(config.seed, "mini-batches" + suffix, 4, 2)
    batches = Batches(samples, config.objective.batch_size, config.objective.fill_batches, order)
    forced = make_episodes(batches.next(), world)
    sampled = make_episodes(batches.next(), world)
    dropout = Dropout(config.agent.dropout, config.agent.feature_dropout, stream("dropout"))
    actions = stream("sampled actions")
    return compute_losses(agent, world, forced, sampled, weight, config, dropout, actions)


def test_gradients_of_the_feeds_add_up_before_one_step(oak, elm, monkeypatch):
    """Each part draws as if it were alone, the second from streams with its number; one optimizer step for both."""
    config, world = changed(CONFIG, gradient_clip=1e9), join_houses([oak, elm])
    parts = ((oak.samples["train"], 0.2, ""), (elm.samples["train"], 0.6, " 2"))
    want = dict.fromkeys((n for n, _ in agent_for(oak).named_parameters()), 0.0)
    reports = []
    for samples, weight, suffix in parts:
        agent = agent_for(oak)
        losses = losses_by_name(agent, world, samples, weight, config, suffix)
        losses.total.backward()
        want = {n: want[n] + p.grad for n, p in agent.named_parameters()}
        reports.append(losses)
    got = []
    monkeypatch.setattr(
        RMSprop,
        "step",
        lambda _: got.append({n: p.grad.clone() for n, p in agent.named_parameters()}),
    )
    agent = agent_for(oak)
    parts = [TrainingData(samples, weight) for samples, weight, _ in parts]
    report = train_locally(agent, RMSprop(agent.parameters(), 1e-3), world, parts, config, 1, 4, 2)
    assert len(got) == 1
    for name, gradient in want.items():
        torch.testing.assert_close(got[0][name], gradient, rtol=1e-5, atol=1e-7, msg=name)
    assert report.imitation_loss == pytest.approx(sum(r.imitation for r in reports))
    assert report.sampled_loss == pytest.approx(sum(r.sampled for r in reports))
    assert report.decisions == sum(r.decisions for r in reports)


def test_one_feed_without_speaker_is_plain_local_training(oak):
    """Three steps written out: streams, losses, clipping and update give the same bytes."""
    agent, optimizer, _ = visit(oak, round=4, partition=2)
    twin, world = agent_for(oak), join_houses([oak])
    its = RMSprop(
        twin.parameters(), CONFIG.objective.learning_rate, CONFIG.objective.bias_correction
    )
    order = rng_for(CONFIG.seed, "mini-batches", 4, 2)
    batches = Batches(
        oak.samples["train"], CONFIG.objective.batch_size, CONFIG.objective.fill_batches, order
    )
    dropout = Dropout(
        CONFIG.agent.dropout,
        CONFIG.agent.feature_dropout,
        torch_generator_for(CONFIG.seed, "dropout", 4, 2),
    )
    actions = torch_generator_for(CONFIG.seed, "sampled actions", 4, 2)
    for _ in range(3):
        both = make_episodes(batches.next(), world), make_episodes(batches.next(), world)
        compute_losses(twin, world, *both, 0.2, CONFIG, dropout, actions).total.backward()
        for module in (twin.encoder, twin.decoder):
            torch.nn.utils.clip_grad_norm_(module.parameters(), CONFIG.objective.gradient_clip)
        its.step()
        its.zero_grad()
    assert fingerprint(module_arrays(agent)) == fingerprint(module_arrays(twin))
    names = list(dict(agent.named_parameters()))
    states = [fingerprint(optimizer_arrays(o, names)) for o in (optimizer, its)]
    assert states[0] == states[1]


def test_learning_from_nothing_is_refused(oak):
    agent = agent_for(oak)
    with pytest.raises(ValueError, match="data to learn from"):
        train_locally(
            agent, RMSprop(agent.parameters(), 1e-3), join_houses([oak]), [], CONFIG, 1, 0, 0
        )


def test_gradients_are_clipped_for_encoder_and_decoder(oak, monkeypatch):
    """After clipping, their norms are at the limit when the optimizer steps; the critic's is free."""
    norms = []

    def spy(self):
        modules = {"encoder.": 0.0, "decoder.": 0.0, "critic.": 0.0}
        names = dict(agent_for(oak).named_parameters())
        for name, p in zip(names, self.param_groups[0]["params"], strict=True):
            modules[name.partition(".")[0] + "."] += p.grad.square().sum().item()
        norms.append({k: v**0.5 for k, v in modules.items()})

    monkeypatch.setattr(RMSprop, "step", spy)
    _, _, report = visit(oak, changed(CONFIG, gradient_clip=1e-3), steps=1)
    assert norms[0]["encoder."] == pytest.approx(1e-3, rel=1e-2)
    assert norms[0]["decoder."] == pytest.approx(1e-3, rel=1e-2)
    assert norms[0]["critic."] > 1e-2 and report.gradient_norm > 1e-3


@pytest.mark.slow
def test_training_learns_to_follow_the_teacher(elm):
    """Three instructions of one path: after some steps the greedy agent reaches the goal."""
    config = changed(
        CONFIG,
        batch_size=3,
        objective="none",
        teacher_weight=1.0,
        learning_rate=5e-3,
        dropout=0.0,
        feature_dropout=0.0,
    )
    agent, _, report = visit(elm, config, steps=60)
    samples = elm.samples["train"]
    visited, _ = walk_all(agent, join_houses([elm]), samples, config)
    assert visited == [list(s.path) for s in samples]
    assert report.imitation_loss > 0


def test_walks_come_back_in_the_order_of_the_samples(small_agent, plain, oak, elm):
    """Batches are made by length of instruction and the house is not the first of its world."""
    world, samples = join_houses([elm, oak]), oak.samples["train"]
    visited, views = walk_all(small_agent, world, samples, CONFIG)
    for s, places, looks in zip(samples, visited, views, strict=True):
        twin = plain.episode(s, lambda t, logits, teacher: int(logits.argmax()), 8)
        assert places == [s.path[0], *(d.after for d in twin.decisions if d.action)]
        assert looks[0] == s.start_view and len(looks) == len(places)
    scores = episode_metrics(oak.graph.distance_m, visited, [s.path for s in samples])
    assert all(np.isfinite(v).all() for v in scores.values())


def test_evaluation_batch_size_changes_nothing(small_agent, oak):
    world, samples = join_houses([oak]), oak.samples["train"]
    walks = [
        walk_all(small_agent, world, samples, changed(CONFIG, evaluation_batch_size=n))
        for n in (1, 5, 100)
    ]
    assert walks[0] == walks[1] == walks[2]


def test_evaluation_leaves_the_agent_and_the_global_generator_alone(small_agent, oak):
    before = fingerprint(module_arrays(small_agent))
    torch.manual_seed(0)
    want = torch.rand(1)
    torch.manual_seed(0)
    walk_all(small_agent, join_houses([oak]), oak.samples["val_seen"], CONFIG)
    assert torch.equal(torch.rand(1), want) and fingerprint(module_arrays(small_agent)) == before
