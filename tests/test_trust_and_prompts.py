"""FLTrust and prompt-based aggregation: values worked by hand, slow twins, and whom a federation of these rules believes."""

from dataclasses import replace

import numpy as np
import pytest

from fedsuite.averaging.merging import shares
from fedsuite.averaging.prompts import most_alike, similarities
from fedsuite.averaging.requirements import check_averaging
from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.settings import FedAvgSettings
from fedsuite.averaging.step import NO_STEP, Step
from fedsuite.errors import InputError, RunFailed
from fedsuite.settings.config import with_keys
from strategies.fedavg import check_merge
from strategies.house_averaging import HouseAveraging
from tests.strategies.played import INITIAL, Houses, houses

SERVER = {"a": np.zeros(1), "b": np.zeros((1, 1))}
POINTS = [(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (10, -10)]
TRUST, PBA = (Merge(MERGE_RULES[name], name=name) for name in ("fltrust", "pba"))


def clients_at(points):
    return [{"a": np.array([float(x)]), "b": np.array([[float(y)]])} for x, y in points]


def trusted(points, place, merge=TRUST):
    weights = np.full(len(points), 1 / len(points))
    return merge(SERVER, clients_at(points), weights, Step(trusted=place))


# --- FLTrust -------------------------------------------------------------------------------------


def test_trust_by_hand():
    found = trusted(POINTS, 2)
    np.testing.assert_allclose([x.item() for x in found.delta.values()], [0.9036858819] * 2)
    part = 7 * 0.5**0.5 / (2 * 0.5**0.5 + 2 + 6 / 10**0.5)  # trust of the first over that of all
    np.testing.assert_allclose(found.admitted, [part, part, 1, 1, 1, 1, 0], rtol=1e-9)


def test_trust_against_a_slow_twin():
    rng = np.random.default_rng(0)
    server = {k: rng.normal(size=s).astype(np.float32) for k, s in {"w": (5, 3), "v": 40}.items()}
    clients = [
        {k: (v + rng.normal(size=v.shape)).astype(np.float32) for k, v in server.items()}
        for _ in range(9)
    ]
    d = [
        np.concatenate([(c[k].astype(float) - v).ravel() for k, v in server.items()])
        for c in clients
    ]
    length = [np.sqrt(x @ x) for x in d]
    t = [max(0.0, x @ d[4] / (n * length[4])) for x, n in zip(d, length, strict=True)]
    want = sum(a * length[4] / n * x for a, n, x in zip(t, length, d, strict=True)) / sum(t)
    assert 0 < sum(a == 0 for a in t) < 8
    delta = TRUST(server, clients, shares([1] * 9), Step(trusted=4)).delta
    np.testing.assert_allclose(np.concatenate([delta[k].ravel() for k in server]), want, rtol=1e-9)


def test_nobody_is_louder_than_the_trusted_one():
    quiet = trusted(POINTS, 2).delta
    loud = trusted([(1000 * x, 1000 * y) if x == 2 else (x, y) for x, y in POINTS], 2).delta
    for name in quiet:
        np.testing.assert_allclose(quiet[name], loud[name], rtol=1e-12)


def test_a_trusted_client_that_did_not_move_holds_all():
    found = trusted([(0, 0), (1, 2), (0, 0)], 0)
    assert [x.item() for x in found.delta.values()] == [0, 0]
    assert found.admitted.tolist() == [0, 0, 0]


def test_a_bound_leaves_the_trusted_one_where_it_is():
    """Its place among those that the bound has left in is another one."""
    bounded = Merge(MERGE_RULES["fltrust"], bound=3.0, clips=False, name="fltrust")
    points = [(10, -10), *POINTS[:6]]
    with_it, without = trusted(points, 3, bounded), trusted(points[1:], 2)
    assert with_it.delta == without.delta


def test_a_round_without_the_trusted_one_fails():
    with pytest.raises(RunFailed, match=r"round 4: .* federation\.trusted sent no change"):
        TRUST(SERVER, clients_at(POINTS), np.full(7, 1 / 7), Step(round=4))


def test_a_federation_goes_where_its_trusted_house_goes():
    """Houses add 1 to 5; one sends its change the other way round a hundred times."""

    class Hostile(Houses):
        def answer(self, task):
            reply = super().answer(task)
            if reply and task.partition == 1:
                start = task.arrays
                false = {
                    k: np.asarray(start[k] - 100 * (v - start[k])) for k, v in reply.arrays.items()
                }
                return replace(reply, arrays=false)
            return reply

    ends = []
    for place in (0, 1):
        federation = Hostile(houses(6, 6, 6, 6, 6))
        strategy = HouseAveraging(
            initial=INITIAL, steps=lambda client: 2, merge=TRUST, trusted=place
        )
        result = federation.train(strategy, 1, federation.start(strategy))
        ends.append(float(result.state.arrays["w"].ravel()[0] - INITIAL["w"].ravel()[0]))
        assert result.admitted[1 - place] == 0
    assert ends[0] == pytest.approx(1.0) and ends[1] == pytest.approx(-200.0)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"participation-rate": 0.5}, "fltrust needs the client of federation.trusted"),
        ({"group-size": 2}, "fltrust needs the trusted client's own change"),
        ({"tolerated": 1}, "fltrust has no use for it"),
    ],
)
def test_what_fltrust_cannot_go_with(keys, told):
    own = {f"federation.{k}": v for k, v in {"merge": "fltrust", **keys}.items()}
    with pytest.raises(InputError, match=told):
        check_averaging(with_keys(FedAvgSettings(), own))


def test_the_trusted_one_has_to_train():
    own = with_keys(FedAvgSettings(), {"federation.merge": "fltrust", "federation.trusted": 3})
    check_merge(own.federation, [[c] for c in houses(6, 6, 6, 6)])
    with pytest.raises(InputError, match=r"federation\.trusted: no partition 3 among .*0, 1, 2"):
        check_merge(own.federation, [[c] for c in houses(6, 6, 6)])


# --- prompt-based aggregation --------------------------------------------------------------------

VECTORS = [(1, 2, -1, 3), (2, 1, -2, 1), (1, 1, -1, -1), (-1, -2, 1, 1), (3, 1, -1, 2)]


def test_who_is_alike_by_hand():
    assert most_alike(similarities([np.array(VECTORS, float)]), 0) == [0, 1, 2]
    assert most_alike(similarities([np.array(VECTORS, float)]), 1) == [0]


def twin_taken(vectors, f):
    """Cosines of signs one by one, the best sum first."""

    def like(i, j):
        total = 0.0
        for own in vectors:
            a, b = np.sign(own[i]), np.sign(own[j])
            total += a @ b / max(1.0, np.sqrt(a @ a)) / max(1.0, np.sqrt(b @ b))
        return total

    left, taken = list(range(len(vectors[0]))), []
    while len(left) > 2 * f + 2:
        sums = {
            i: sum(sorted((like(i, j) for j in left), reverse=True)[: len(left) - 1 - f])
            for i in left
        }
        taken.append(max(left, key=lambda i: (round(sums[i], 9), -i)))
        left.remove(taken[-1])
    return taken


@pytest.mark.parametrize("f", [0, 1, 2])
def test_who_is_alike_against_a_slow_twin(f):
    rng = np.random.default_rng(f)
    for _ in range(20):
        vectors = [rng.normal(size=(9, 16)) * (rng.random((9, 16)) < 0.8) for _ in range(2)]
        assert most_alike(similarities(vectors), f) == twin_taken(vectors, f)


def prompted(prompts):
    """A server with a prompt of 0, and clients whose other number is their place."""
    server = {"decoder.prompt.state": np.zeros(4, np.float32), "w": np.zeros((), np.float32)}
    clients = [
        {"decoder.prompt.state": np.array(p, np.float32), "w": np.asarray(float(k), np.float32)}
        for k, p in enumerate(prompts)
    ]
    return server, clients


def test_models_are_merged_and_prompts_begin_anew():
    server, clients = prompted(VECTORS)
    server["decoder.prompt.state"] += 0.5  # of an earlier run
    clients = [{**c, "decoder.prompt.state": c["decoder.prompt.state"] + 0.5} for c in clients]
    found = PBA(server, clients, shares([10, 20, 30, 40, 50]), NO_STEP)
    assert found.delta["w"].item() == pytest.approx((0 * 10 + 1 * 20 + 2 * 30) / 60)
    assert found.delta["decoder.prompt.state"].tolist() == [-0.5] * 4
    assert found.admitted.tolist() == [1, 1, 1, 0, 0]


def test_one_that_learnt_other_prompts_is_left_out():
    server, clients = prompted([(1, 1, -1, 1)] * 6 + [(-1, 1, 1, -1)])
    found = Merge(MERGE_RULES["pba"], 1, name="pba")(server, clients, shares([1] * 7), NO_STEP)
    assert found.admitted[6] == 0 and found.delta["w"].item() == pytest.approx(1.0)


def test_a_model_without_prompts_is_said():
    with pytest.raises(RunFailed, match=r"pba: the model has no arrays with `prompt\.`"):
        PBA(SERVER, clients_at(POINTS), np.full(7, 1 / 7))
