"""Drawings of overlays: where silos stand, what is drawn, and the weights that are told."""

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.plan import make_plan
from fedsuite.driving.report.overlays import overlay_map, overlay_of, places
from tests.harness import changed

LABELS = ("Lyon", "Turin", "Genoa")
POSITIONS = np.array([[45.8, 4.8], [45.1, 7.7], [44.4, 8.9]])


def arrows(axes):
    return [t for t in axes.texts if t.arrow_patch is not None]


def words(axes):
    return [t.get_text() for t in axes.texts if t.arrow_patch is None]


def test_map():
    figure = overlay_map(POSITIONS, LABELS, [(0, 1), (1, 2), (2, 0)], title="ring", directed=True)
    (axes,) = figure.axes
    assert axes.collections[0].get_offsets().tolist() == POSITIONS[:, ::-1].tolist()
    assert [tuple(t.xy) for t in arrows(axes)] == [(7.7, 45.1), (8.9, 44.4), (4.8, 45.8)]
    assert words(axes) == list(LABELS)
    assert (axes.get_title(), axes.get_xlabel()) == ("ring", "longitude (degrees)")


def test_links_are_drawn_once_on_a_circle():
    (axes,) = overlay_map(None, LABELS, [(0, 1), (1, 0), (2, 1)]).axes
    assert len(arrows(axes)) == 2
    at = places(None, 3)
    assert np.hypot(*at.T) == pytest.approx([1, 1, 1]) and at[0] == pytest.approx([0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["ring", "mst", "matcha"])
def test_a_plan_tells_its_mixing_weights_between_the_networks_own_links(scenario):
    plan = make_plan(changed(CDLConfig(), scenario=scenario, underlay="geant"))
    figure = overlay_of(plan)
    (axes,) = figure.axes
    numbers = [w for w in words(axes) if w not in plan.network.labels]
    once = {(min(e), max(e)) for e in plan.overlay.edges}
    assert len(arrows(axes)) == (len(plan.overlay.edges) if plan.directed else len(once))
    assert len(axes.lines) == plan.network.underlay.number_of_edges() == 61
    (says,) = [t.get_text() for t in figure.legends[0].texts if "model" in t.get_text()]
    if scenario == "ring":
        assert numbers == [] and says == "model sent (mixing weight 0.50)"
        return
    if scenario == "mst":
        a = plan.mixing.matrix(0)
        weights = {a[i, j] for i, j in plan.overlay.edges}
        assert says == "models exchanged, with its mixing weight"
        assert len(numbers) > len(once) / 3 and len(set(numbers)) > 2
        assert set(numbers) <= {f"{w:.2f}".removeprefix("0") for w in weights}
    else:  # too many for numbers
        matcha = plan.mixing.matcha
        widest = 0.5 + 3 * matcha.alpha * max(matcha.probabilities)
        widths = [t.arrow_patch.get_linewidth() for t in arrows(axes)]
        assert max(widths) == pytest.approx(widest) and min(widths) < widest / 2
        assert numbers == [] and says.endswith("the wider the larger the mixing weight")
