"""Two rounds of every local method on quadratics, against numbers that were computed by another program."""

from typing import Any

import numpy as np
import pytest

from fedsuite.arrays import Share, under_prefix
from fedsuite.averaging.local_methods import LOCAL_METHODS
from tests.averaging.personal.quadratics import BODY, Federation, model, numbers

FEDAVG = [(-0.19, -0.08), (-0.295125, -0.1264625)]


def federation(name: str, **about: Any) -> Federation:
    return Federation(LOCAL_METHODS[name], **about)


def own_of(played: Federation, prefix: str = "") -> np.ndarray:
    return np.array([numbers(under_prefix(kept, prefix)) for kept in played.kept.values()])


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


def test_fedavg() -> None:
    played = federation("plain")
    for wanted in FEDAVG:
        played.round()
        close(numbers(played.server), wanted)


def test_fedper() -> None:
    """The plain method where the body alone is shared."""
    played = federation("plain", share=BODY)
    for body, heads in ((-0.19, (-0.2725, 0.1125)), (-0.294403125, (-0.43143125, 0.2290375))):
        played.round()
        close([played.scored(k) for k in (0, 1)], [(body, head) for head in heads])


def test_fedrep() -> None:
    """Three steps: two of the head, then one of the body."""
    played = federation("fedrep", share=BODY, steps=3)
    rounds = (-0.1206875, (-0.27, 0.0975)), (-0.2096486914, (-0.431938125, 0.1972607813))
    for body, heads in rounds:
        played.round()
        np.testing.assert_allclose(played.server["body"], body, rtol=0, atol=1e-9)
        close([played.own[k]["head"][0] for k in (0, 1)], heads)
    assert played.learners[0].trained == [("head", 2), ("", 1)] * 2


def test_a_head_without_steps_never_moves() -> None:
    played = federation("fedrep", share=BODY, settings={"head_steps": 0.0})
    before = numbers(played.server)[0]
    for _ in range(3):
        played.round()
        assert [played.own[k]["head"][0] for k in (0, 1)] == [0, 0]
    assert numbers(played.server)[0] != before


def test_ditto() -> None:
    played = federation("ditto", settings={"ditto_strength": 1.0})
    rounds = (
        [(0.0975, -0.2575), (-0.4525, 0.1075)],
        [(0.14565625, -0.40428125), (-0.6021125, 0.20213125)],
    )
    for server, own in zip(FEDAVG, rounds, strict=True):
        played.round()
        close(numbers(played.server), server)
        close(own_of(played), own)
        close([played.scored(k) for k in (0, 1)], own)


def test_apfl_with_a_weight_that_stays() -> None:
    played = federation("apfl", settings={"own_weight": 0.5, "own_weight_rate": 0.0})
    rounds = (
        [(0.0509375, -0.1396875), (-0.2559375, 0.0546875)],
        [(0.1131119629, -0.2562061035), (-0.4347880859, 0.1193524902)],
    )
    for server, own in zip(FEDAVG, rounds, strict=True):
        played.round()
        close(numbers(played.server), server)
        np.testing.assert_allclose(own_of(played, "own."), own, rtol=0, atol=1e-9)
    close(played.scored(0), (own_of(played, "own.")[0] + numbers(played.server)) / 2)


def test_apfl_with_a_weight_that_is_learnt() -> None:
    played = federation("apfl", settings={"own_weight": 0.5, "own_weight_rate": 0.1})
    weights = ((0.489, 0.466734375), (0.5233571606, 0.4874637587))
    for server, wanted in zip(FEDAVG, weights, strict=True):
        played.round()
        close(numbers(played.server), server)
        close([played.kept[k]["weight"] for k in (0, 1)], wanted)
    close(own_of(played, "own.")[0], (0.1131315093, -0.2562128150))


def test_layers_mixed_by_weights_that_stay() -> None:
    played = federation("layer-mixing", settings={"own_weight_rate": 0.0})
    for k in played.kept:
        weights = {"weight.body": np.array(0.25), "weight.head": np.array(0.75)}
        played.kept[k] = {f"own.{n}": v for n, v in model(0, 0).items()} | weights
    played.round()
    close(numbers(played.server), (-0.19, -0.08))
    close(own_of(played, "own."), [(0.1025, -0.2725), (-0.4825, 0.1125)])
    played.round()
    close(numbers(played.server), (-0.2781304688, -0.1077875))
    close(own_of(played, "own."), [(0.0266109375, -0.4067265625), (-0.582871875, 0.1911515625)])


def test_layers_mixed_by_weights_that_are_learnt() -> None:
    """In round 1 the own model is the server's, and no weight has anything to tell apart."""
    played = federation("layer-mixing", settings={"own_weight": 0.5, "own_weight_rate": 1.0})
    played.round()
    close(numbers(played.server), (-0.19, -0.08))
    assert [float(v) for v in under_prefix(played.kept[0], "weight.").values()] == [0.5, 0.5]
    played.round()
    close(numbers(played.server), (-0.2648607636, -0.1134948967))
    found = [numbers({n: v[None] for n, v in under_prefix(k, "weight.").items()}) for k in played.kept.values()]  # fmt: skip
    close(found, [(0.6848234375, 0.7166828125), (0.9864640625, 0.62705)])


# --- what a method is at its ends ----------------------------------------------------------------


def alone(rounds: int) -> np.ndarray:
    """Both clients' models where nothing is shared."""
    played = federation("plain", share=Share(()))
    for _ in range(rounds):
        played.round()
    return np.array([numbers(played.own[k]) for k in (0, 1)])


def after(rounds: int, name: str, **settings: Any) -> Federation:
    played = federation(name, settings=settings)
    for _ in range(rounds):
        played.round()
    return played


@pytest.mark.parametrize("rounds", [1, 3])
def test_ditto_without_a_pull_trains_alone(rounds: int) -> None:
    played = after(rounds, "ditto", ditto_strength=0.0)
    assert np.array_equal([played.scored(k) for k in (0, 1)], alone(rounds))


@pytest.mark.parametrize("name", ["layer-mixing", "apfl"])
def test_all_of_the_own_model_is_training_alone(name: str) -> None:
    played = after(3, name, own_weight=1.0, own_weight_rate=0.0)
    assert np.array_equal([played.scored(k) for k in (0, 1)], alone(3))


@pytest.mark.parametrize("name", ["layer-mixing", "apfl"])
def test_nothing_of_the_own_model_is_fedavg(name: str) -> None:
    played, plain = after(3, name, own_weight=0.0, own_weight_rate=0.0), after(3, "plain")
    assert np.array_equal(numbers(played.server), numbers(plain.server))
    assert np.array_equal(played.scored(1), numbers(plain.server))
