"""The mixing step against slow loops, BatchNorm statistics, grouping, and contraction of the consensus distance."""

import numpy as np
import pytest
import torch

from fedsuite.driving.topology import load_network
from fedsuite.driving.topology.device_mixing import mix_tensors
from fedsuite.driving.topology.matcha import plan_matcha
from fedsuite.driving.topology.mixing import (
    average_model,
    batch_norm_names,
    consensus_distance,
    mix,
)
from fedsuite.driving.topology.mixing_matrix import (
    MixingSchedule,
    ring_matrix,
)
from tests.schedules import contraction, make_schedule


def models(silos, seed=0, width=5000):
    rng = np.random.default_rng(seed)
    shapes = {"conv.weight": (3, 4, 2), "bn.weight": (6,), "bn.bias": (6,), "head.weight": (width,)}
    out = {k: rng.normal(size=(silos, *s)).astype(np.float32) for k, s in shapes.items()}
    out["bn.running_mean"] = rng.normal(2, 3, (silos, 6)).astype(np.float32)
    out["bn.running_var"] = rng.gamma(2, 1, (silos, 6)).astype(np.float32)
    out["bn.num_batches_tracked"] = np.arange(silos, dtype=np.int64)
    return out


def matrices(silos, rng):
    dense = rng.random((silos, silos))
    same = np.tile(rng.random(silos), (silos, 1))
    for a in (dense, same, np.eye(silos) + (rng.random((silos, silos)) < 0.05)):
        yield a / a.sum(axis=1, keepdims=True)


def slow(stacked, a):
    """Plain loops in float64, ascending j, one rounding."""
    out = {}
    for name, values in stacked.items():
        if values.dtype.kind != "f":
            out[name] = values
            continue
        rows = []
        for i in range(len(a)):
            total = np.zeros(values.shape[1:])
            mean = np.zeros(values.shape[1:])
            for j in range(len(a)):
                own = values[j].astype(np.float64)
                if name.endswith("running_var"):
                    m = stacked[name.replace("_var", "_mean")][j].astype(np.float64)
                    own, mean = own + m * m, mean + a[i, j] * m
                total = total + a[i, j] * own
            rows.append(total - mean * mean if name.endswith("running_var") else total)
        out[name] = np.array(rows).astype(values.dtype)
    return out


@pytest.mark.parametrize("silos", [1, 2, 7, 25])
def test_against_loops(silos):
    stacked = models(silos)
    for a in matrices(silos, np.random.default_rng(silos)):
        before = {k: v.copy() for k, v in stacked.items()}
        got, expected = mix(stacked, a), slow(stacked, a)
        assert got.keys() == stacked.keys()
        for name in got:
            assert got[name].dtype == stacked[name].dtype and got[name].shape == stacked[name].shape
            np.testing.assert_allclose(got[name], expected[name], rtol=2e-7, atol=1e-7)
            np.testing.assert_array_equal(stacked[name], before[name])


def test_sparse_rows_are_added_in_ascending_order():
    """Bit for bit the loops' result, in float64 too."""
    stacked = {
        "w": np.random.default_rng(0).normal(size=(30, 700)) * 10.0 ** np.arange(30)[:, None]
    }
    a = make_schedule(30, "ring").matrix(1)
    np.testing.assert_array_equal(mix(stacked, a)["w"], slow(stacked, a)["w"])


@pytest.mark.parametrize("cut", [1, 37, 2048, 2049])
def test_grouping_does_not_matter(cut):
    values = np.random.default_rng(0).normal(size=(23, 5001))
    for a in matrices(23, np.random.default_rng(1)):
        whole = mix({"w": values}, a)["w"]
        left, right = mix({"w": values[:, :cut]}, a)["w"], mix({"w": values[:, cut:]}, a)["w"]
        np.testing.assert_array_equal(whole, np.concatenate([left, right], axis=1))
        np.testing.assert_array_equal(whole, mix({"x": values, "w": values}, a)["w"])


def test_variances_are_those_of_the_pooled_data():
    """Silos with data of different means: the statistics of all data together, not the mean of variances."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(4, 1000, 6)) + rng.normal(0, 5, (4, 1, 6))
    stacked = {"bn.running_mean": data.mean(1), "bn.running_var": data.var(1)}
    got = mix(stacked, np.full((4, 4), 1 / 4))
    pooled = data.reshape(-1, 6)
    for i in range(4):
        np.testing.assert_allclose(got["bn.running_mean"][i], pooled.mean(0), rtol=1e-9)
        np.testing.assert_allclose(got["bn.running_var"][i], pooled.var(0), rtol=1e-9)
    averaged = average_model(stacked)
    np.testing.assert_allclose(averaged["bn.running_var"], pooled.var(0), rtol=1e-9)


def test_variances_stay_non_negative():
    signed = np.array([[1.5, -0.5], [0.5, 0.5]])
    stacked = {"running_mean": np.array([[0.0], [9.0]]), "running_var": np.array([[0.1], [0.1]])}
    assert mix(stacked, signed)["running_var"].ravel().tolist() == [0.0, pytest.approx(20.35)]


def test_names_of_batch_norm():
    layer = {"bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"}
    assert batch_norm_names(models(3)) == layer
    assert batch_norm_names(("gn.weight", "gn.bias")) == frozenset()
    bare = ("running_mean", "weight", "head.weight", "a.running_mean", "a.bias", "ab.bias")
    assert batch_norm_names(bare) == {"running_mean", "weight", "a.running_mean", "a.bias"}


def test_average_and_counters():
    stacked = models(5)
    averaged, mixed = average_model(stacked), mix(stacked, np.full((5, 5), 1 / 5))
    assert averaged["bn.num_batches_tracked"] == 4
    assert mixed["bn.num_batches_tracked"].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(averaged["head.weight"], stacked["head.weight"].mean(0), atol=1e-6)
    for name in averaged:
        if name != "bn.num_batches_tracked":
            np.testing.assert_array_equal(averaged[name], mixed[name][2])


def test_consensus_distance():
    stacked = models(4, width=4500)
    parameters = [
        v.reshape(4, -1) for k, v in stacked.items() if "running" not in k and "num" not in k
    ]
    x = np.concatenate(parameters, axis=1).astype(np.float64)
    expected = ((x - x.mean(0)) ** 2).sum(1).mean()
    assert consensus_distance(stacked) == pytest.approx(expected, rel=1e-12)
    assert consensus_distance(mix(stacked, np.full((4, 4), 1 / 4))) == 0


@pytest.mark.parametrize("kind", ["ring", "mst", "star", "delta_mbst"])
@pytest.mark.parametrize("name", ["gaia", "geant"])
def test_pure_mixing_contracts_by_the_spectral_bound(name, kind):
    """Every step shrinks the distance at least by contraction^2, and the mean model never moves."""
    network = load_network(name)
    schedule = make_schedule(network, kind)
    rng = np.random.default_rng(0)
    stacked = {"w": rng.normal(size=(network.num_silos, 40))}
    mean, bound = stacked["w"].mean(0), contraction(schedule.matrix(1)) ** 2
    before = consensus_distance(stacked)
    for round in range(1, 40):
        stacked = mix(stacked, schedule.matrix(round))
        now = consensus_distance(stacked)
        assert now <= bound * before * (1 + 1e-9) + 1e-25
        before = now
        np.testing.assert_allclose(stacked["w"].mean(0), mean, atol=1e-12)


def test_matcha_contracts_by_rho_on_average():
    network = load_network("gaia")
    plan = plan_matcha(network.underlay)
    start = {"w": np.random.default_rng(0).normal(size=(11, 60))}
    schedule = MixingSchedule("matcha", 11, plan.support(), matcha=plan, seed=1)
    ratios = [
        consensus_distance(mix(start, schedule.matrix(r))) / consensus_distance(start)
        for r in range(1, 400)
    ]
    assert np.mean(ratios) <= plan.rho * 1.05


def test_wrong_shapes():
    stacked = {"w": np.zeros((3, 2))}
    with pytest.raises(ValueError, match=r"expected shape \(3, 3\), got \(2, 2\)"):
        mix(stacked, ring_matrix([(0, 1), (1, 0)], 2))
    with pytest.raises(ValueError, match="of one N"):
        mix({"a": np.zeros((3, 2)), "b": np.zeros((2, 2))}, np.eye(3))
    with pytest.raises(ValueError, match=r"running_var: needs .*running_mean"):
        mix({"bn.running_var": np.zeros((3, 2))}, np.eye(3))


@pytest.mark.parametrize("silos", [1, 7, 25])
def test_where_the_models_are_the_sums_are_the_same(silos: int) -> None:
    rng, stacked = np.random.default_rng(silos), models(silos)
    tensors = {k: torch.from_numpy(v) for k, v in stacked.items()}
    for a in matrices(silos, rng):
        mixed = mix_tensors(tensors, a)
        for name, expected in mix(stacked, a).items():
            assert mixed[name].numpy().dtype == expected.dtype, name
            np.testing.assert_allclose(
                mixed[name].numpy(), expected, rtol=2e-7, atol=1e-7, err_msg=name
            )
