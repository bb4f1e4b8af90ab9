"""What a FedVLN run's settings stand for: its algorithm, and the values that this gets."""

import pytest

from fedsuite.federation import ClientInfo, RateSchedule, Selection
from fedsuite.vln.metrics import AGENT_METRICS, SPEAKER_METRICS
from strategies.house_averaging import HouseAveraging
from strategies.language_encoder_fedavg import LanguageEncoderFedAvg
from strategies.local_only import LocalOnly
from strategies.sequential_averaging import SequentialAveraging
from tests.harness import changed
from tests.strategies.played import CONFIG, INITIAL, houses, made, run_round


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, HouseAveraging),
        ({"stage": "speaker"}, HouseAveraging),
        ({"aggregation": "sequential"}, SequentialAveraging),
        ({"client_optimizer": "shared"}, SequentialAveraging),
        ({"method": "centralised"}, HouseAveraging),
        ({"method": "local-only"}, LocalOnly),
        ({"stage": "pre-explore"}, LanguageEncoderFedAvg),
        ({"stage": "pre-explore", "method": "local-only"}, LanguageEncoderFedAvg),
        ({"stage": "pre-explore", "method": "centralised"}, HouseAveraging),
    ],
)
def test_which_algorithm(changes, kind):
    assert type(made(changed(CONFIG, **changes), INITIAL)) is kind


@pytest.mark.parametrize(
    ("stage", "scores"),
    [
        ("speaker", SPEAKER_METRICS),
        ("train", AGENT_METRICS),
        ("augment", AGENT_METRICS),
        ("pre-explore", AGENT_METRICS),
    ],
)
def test_the_stage_decides_how_scores_become_one(stage, scores):
    assert made(changed(CONFIG, stage=stage), INITIAL).metrics == scores


@pytest.mark.parametrize(
    ("stage", "selection", "names"),
    [
        ("train", "last", ()),
        ("train", "best-val-seen", ("val_seen.sr", "val_seen.spl")),
        ("augment", "best-val-unseen", ("val_unseen.sr", "val_unseen.spl")),
        ("pre-explore", "best-val-unseen", ("val_unseen.sr", "val_unseen.spl")),
        ("speaker", "best-val-seen", ("val_seen.bleu-2", "val_seen.bleu-4")),
        ("speaker", "best-val-unseen", ("val_unseen.bleu-2", "val_unseen.bleu-4")),
    ],
)
def test_what_chooses_the_round(stage, selection, names):
    strategy = made(changed(CONFIG, stage=stage, selection=selection), INITIAL)
    assert strategy.selection == Selection(names)


@pytest.mark.parametrize(("rate", "count"), [(0.2, 2), (0.05, 1), (1.0, 10)])
def test_number_of_participants(rate, count):
    config = changed(CONFIG, participation_rate=rate)
    seen = [
        tuple(t.partition for t in run_round(config, houses(*[8] * 10), number=n)[1].trained)
        for n in (1, 2, 3)
    ]
    assert {len(set(s)) for s in seen} == {count}
    assert len(set(seen)) > 1 or count == 10


def all_houses(houses: int, steps: int) -> list[ClientInfo]:
    """The single client of a centralised run; `steps` is what its houses would make with everybody taking part."""
    return [ClientInfo(0, "all", 40, {"training-houses": houses, "local-steps": steps})]


@pytest.mark.parametrize(
    ("houses", "local_steps", "rate", "steps"),
    [(61, 1130, 0.2, 222), (10, 100, 0.25, 20), (3, 3, 0.2, 1), (3, 1, 0.2, 1), (5, 35, 1.0, 35)],
)
def test_centralised_steps_are_those_of_the_average_round(houses, local_steps, rate, steps):
    """int(r N) of N houses, 12 of 61 for example, and never none."""
    config = changed(CONFIG, method="centralised", participation_rate=rate)
    result, federation = run_round(config, all_houses(houses, local_steps))
    (task,) = federation.trained
    assert task.partition == 0 and task.config["steps"] == steps
    assert result.state.scalars["local-steps"] == steps


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_the_centralised_agent_goes_on_from_where_its_client_left_it(mode):
    """A server rate is for averages: it neither scales the only client's steps nor decays."""
    config = changed(
        CONFIG, method="centralised", aggregation=mode, server_learning_rate=6.0,
        server_decay_steps=1, server_learning_rate_decay=0.5,
    )  # fmt: skip
    first, _ = run_round(config, all_houses(3, 9))
    assert first.state.arrays["w"].tolist() == [1, 1]
    second, _ = run_round(config, all_houses(3, 9), first.state, number=2)
    assert second.state.arrays["w"].tolist() == [2, 2]


def test_eta_starts_and_decays_as_set():
    config = changed(
        CONFIG, server_learning_rate=3.0, server_learning_rate_decay=0.5, server_decay_steps=7
    )
    assert made(config, INITIAL).rate == RateSchedule(3.0, 0.5, 7)
    for alone in ({"method": "centralised"}, {"method": "local-only", "stage": "pre-explore"}):
        assert made(changed(config, **alone), INITIAL).rate == RateSchedule(every_steps=7)


def test_houses_that_explore_by_themselves_do_so_side_by_side():
    alone = {"stage": "pre-explore", "method": "local-only"}
    unread = {"aggregation": "sequential", "group_size": 3, "max_share": 0.5}
    strategy = made(changed(CONFIG, **alone, **unread), INITIAL)
    plain = made(changed(CONFIG, **alone), INITIAL)
    assert type(strategy) is LanguageEncoderFedAvg
    assert (strategy.grouping, strategy.max_share) == (plain.grouping, plain.max_share)
