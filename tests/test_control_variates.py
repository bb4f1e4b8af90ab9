"""SCAFFOLD on two quadratic clients against values worked out apart, and in runs of houses and speakers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsuite.arrays import with_prefix
from fedsuite.averaging.control_variates import CONTROL, server_control
from fedsuite.averaging.correction import Correction
from fedsuite.runs.versions import Checkpoints
from simulations.engines.inprocess import run_inprocess
from tests.golden.runs import RUNS
from tests.harness import config_from

H = np.array([(1.0, 2.0), (4.0, 0.5)])
B = np.array([(1.0, -1.0), (-1.0, 2.0)])
OPTIMUM = (-0.6, -0.4)


def visit(client: int, start: np.ndarray, server: np.ndarray, own: dict[str, np.ndarray]):
    """Two steps of SGD with rate 0.1 on sum h (w - b)^2 / 2; the end, c_k and its change."""
    w = torch.tensor(start, requires_grad=True)
    correction = Correction({"w": server}, own)
    sgd = torch.optim.SGD([w], lr=0.1)
    for _ in range(2):
        sgd.zero_grad()
        (0.5 * torch.tensor(H[client]) * (w - torch.tensor(B[client])) ** 2).sum().backward()
        correction.correct({"w": w})
        sgd.step()
    return w.detach().numpy(), correction.updated(), correction.change()


def play(participants: list[list[int]]):
    """w and c after every round; equal weights, eta 1, N = 2."""
    w, c, own = np.zeros(2), np.zeros(2), [{}, {}]
    seen = []
    for chosen in participants:
        ends, changes = [], []
        for k in chosen:
            end, own[k], change = visit(k, w, c, own[k])
            ends.append(end)
            changes.append(change)
        w = np.mean(ends, axis=0)
        c = server_control({"w": c}, [with_prefix(d, CONTROL) for d in changes], 2)["w"]
        seen.append((w, c))
    return seen


def test_both_clients_by_hand():
    (w1, c1), (w2, c2) = play([[0, 1]] * 2)
    np.testing.assert_allclose(w1, (-0.225, -0.0825), atol=1e-12)
    np.testing.assert_allclose(c1, (1.125, 0.4125), atol=1e-12)
    np.testing.assert_allclose(w2, (-0.38775, -0.156534375), atol=1e-12)
    np.testing.assert_allclose(c2, (0.81375, 0.370171875), atol=1e-12)


def test_one_client_after_the_other_by_hand():
    """Who is absent keeps its c_k, and counts in the mean."""
    (w1, c1), (w2, c2) = play([[0], [1]])
    np.testing.assert_allclose(w1, (0.19, -0.36), atol=1e-12)
    np.testing.assert_allclose(c1, (-0.475, 0.9), atol=1e-12)
    np.testing.assert_allclose(w2, (-0.4956, -0.3054), atol=1e-12)
    np.testing.assert_allclose(c2, (1.4765, 0.3135), atol=1e-12)


@pytest.mark.slow
def test_it_ends_at_the_optimum_where_averaging_does_not():
    np.testing.assert_allclose(play([[0, 1]] * 400)[-1][0], OPTIMUM, atol=1e-9)


def test_a_parameter_without_a_gradient_counts_as_zero():
    correction = Correction({"w": np.ones(2, np.float32)}, {})
    w = torch.zeros(2, requires_grad=True)
    correction.correct({"w": w})
    assert w.grad is not None and w.grad.tolist() == [1, 1]
    assert correction.updated()["w"].tolist() == [0, 0]


# --- runs -------------------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "agents": RUNS["vln-train-parallel"],
    "speakers": RUNS["vln-speaker"],
}


def run(folder: Path, cache: Path, kind: str, **changes: Any) -> Path:
    place = {"name": "run", "results-dir": str(folder), "data.cache-dir": str(cache)}
    own = {"num-rounds": 3, "participation-rate": 1.0, "control-variates": True}
    run_inprocess(config_from({**CASES[kind], **own, **place, **changes}))
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_runs_differ_from_the_second_visit_on_and_resume_to_the_byte(
    tmp_path: Path, cache: Path, kind: str
) -> None:
    whole = run(tmp_path / "whole", cache, kind)
    plain = [
        run(tmp_path / f"plain-{n}", cache, kind, **{"num-rounds": n, "control-variates": False})
        for n in (1, 3)
    ]
    once = run(tmp_path / "torn", cache, kind, **{"num-rounds": 1})
    models = [(folder / "model.safetensors").read_bytes() for folder in (whole, *plain, once)]
    assert models[0] != models[2] and models[1] == models[3]
    resumed = run(tmp_path / "torn", cache, kind, **{"resume": str(once)})
    assert (resumed / "model.safetensors").read_bytes() == models[0]
    stored = Checkpoints(whole / "checkpoints").latest()
    assert stored is not None
    controls = {k: v for k, v in stored.state.optimizer.items() if k.startswith(CONTROL)}
    assert {k.removeprefix(CONTROL) for k in controls} == stored.state.arrays.keys()
    assert any(np.abs(v).max() > 0 for v in controls.values())
