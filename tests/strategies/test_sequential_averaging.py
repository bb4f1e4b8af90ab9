"""Houses that train one after the other, and optimizers that they hand on."""

import numpy as np
import pytest

from fedsuite.averaging.step import Step
from strategies.participation import Published
from tests.harness import changed
from tests.strategies.played import CONFIG, INITIAL, houses, made, run_round


def test_published_participants_train_in_their_order_when_sequential():
    clients = houses(*[64] * 61)
    config = changed(
        CONFIG, participation_rate=0.2, participation="published", aggregation="sequential"
    )
    _, federation = run_round(config, clients, number=1)
    order = [t.partition for t in federation.trained]
    assert order == [36, 2, 27, 30, 60, 0, 13, 29, 52, 31, 17, 41]
    assert order == [c.partition for c in Published(0.2)(Step(round=1), clients)]


# --- optimizer state --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fresh", "kept"])
def test_private_optimizers_are_never_sent(kind):
    _, federation = run_round(changed(CONFIG, client_optimizer=kind), houses(4, 4))
    assert all(set(t.arrays) == {"w", "b"} and t.returns is None for t in federation.trained)


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_shared_optimizer_is_handed_from_house_to_house_and_round_to_round(mode):
    config = changed(CONFIG, client_optimizer="shared", aggregation=mode)
    clients = houses(4, 8, 12)  # 1, 2 and 3 steps
    first, federation = run_round(config, clients)
    chain = [t.arrays.get("optimizer.step") for t in federation.trained]
    assert chain == [None, 1, 3] and len(federation.exchanges) == 3
    assert federation.trained[0].returns == {
        "w": (2,),
        "b": (),
        "optimizer.square_avg.w": (2,),
        "optimizer.square_avg.b": (),
        "optimizer.step": (),
    }
    assert federation.trained[0].not_negative == (
        "optimizer.square_avg.w",
        "optimizer.square_avg.b",
    )
    assert federation.trained[0].ranges["optimizer.step"][0] == 1
    assert set(first.state.arrays) == {"w", "b"}
    assert set(first.state.optimizer) == {"square_avg.w", "square_avg.b", "step"}
    assert first.state.optimizer["step"] == 6
    second, federation = run_round(config, clients, first.state, number=2)
    assert [t.arrays["optimizer.step"] for t in federation.trained] == [6, 7, 9]
    assert second.state.optimizer["square_avg.w"].tolist() == [12, 12]
    unshared, _ = run_round(changed(config, client_optimizer="fresh"), clients)
    assert np.array_equal(first.state.arrays["w"], unshared.state.arrays["w"])
    assert unshared.state.optimizer == {}


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_a_lost_house_passes_the_shared_optimizer_by(mode):
    config = changed(CONFIG, client_optimizer="shared", aggregation=mode, server_learning_rate=1.0)
    result, federation = run_round(config, houses(4, 8, 12), lost=[1])
    assert [t.arrays.get("optimizer.step") for t in federation.trained] == [None, 1, 1]
    assert result.state.optimizer["step"] == 4
    # Side by side the others' weights are relative to one another; in turn house 2 starts where house 0 moved w.
    want = 1 / 4 * 1 + 3 / 4 * 3 if mode == "parallel" else 1 / 6 * 1 + 3 / 6 * 3
    assert result.state.arrays["w"] == pytest.approx(np.full(2, want))


def test_the_result_of_a_run_is_the_agent_alone():
    config = changed(CONFIG, client_optimizer="shared")
    result, federation = run_round(config, houses(4))
    final = federation.finish(made(config, INITIAL), 1, result.state)
    assert set(final.state.arrays) == {"w", "b"} and final.state.optimizer == {}
