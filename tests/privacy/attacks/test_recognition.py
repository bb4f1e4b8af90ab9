"""Cosines of signs with the gradients of steps: against NumPy, and what they find in a linear model."""

import numpy as np
import pytest
import torch

from fedsuite.privacy.attacks.recognition import Steps


def test_scores_are_cosines_of_signs() -> None:
    rng = np.random.default_rng(0)
    gradient, steps = rng.normal(size=60), rng.normal(size=(4, 60))
    steps[1, ::3] = 0.0
    gradient[:5] = 0.0
    parts = [torch.from_numpy(p).float() for p in (gradient[:12].reshape(3, 4), gradient[12:])]
    found = Steps(torch.from_numpy(np.sign(steps))).scores(parts)
    g, h = np.sign(gradient), np.sign(steps)
    expected = h @ g / (np.linalg.norm(h, axis=1) * np.linalg.norm(g))
    assert found.numpy() == pytest.approx(expected, abs=1e-6)
    own = Steps(torch.from_numpy(np.sign(gradient))[None])
    assert float(own.scores(parts)[0]) == pytest.approx(1)
    assert float(own.scores([-1000 * part for part in parts])[0]) == pytest.approx(-1)


def test_what_tells_nothing_has_no_score() -> None:
    nothing, some = torch.zeros(2, 6), torch.ones(6)
    assert Steps(nothing).scores([some]).tolist() == [0.0, 0.0]
    assert Steps(torch.ones(1, 6)).scores([0 * some]).tolist() == [0.0]


def test_records_of_a_step_are_found_among_others() -> None:
    """Inputs x of a linear model with errors e: gradients e x, of a step their mean."""
    rng = np.random.default_rng(1)
    gradients = rng.normal(size=(40, 1)) * rng.normal(size=(40, 5000))
    step = gradients[:4].mean(axis=0)
    seen = Steps(torch.from_numpy(np.sign(step))[None])
    scores = np.array([float(seen.scores([torch.from_numpy(g).float()])[0]) for g in gradients])
    assert scores[:4].mean() > 0.2 and np.abs(scores[4:]).max() < 0.08
    assert scores.argmax() < 4
