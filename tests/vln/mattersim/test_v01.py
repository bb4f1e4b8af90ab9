"""The older interface: one environment, scalars and snapshots, on a handmade house and against recordings."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedsuite.vln.mattersim import make_simulator, v01

SHARED = Path(__file__).parents[4] / "shared"
GOLDEN, CONNECTIVITY = SHARED / "golden" / "mattersim", SHARED / "data" / "r2r" / "connectivity"
STEP = math.pi / 6


def simulator(folder, seed=1) -> v01.Simulator:
    sim = v01.Simulator()
    sim.setSeed(seed)
    sim.setRenderingEnabled(False)
    sim.setNavGraphPath(str(folder))
    sim.setDiscretizedViewingAngles(True)
    sim.setCameraResolution(640, 480)
    sim.setCameraVFOV(math.radians(60))
    sim.init()
    return sim


def test_shows_and_does_what_the_batch_of_one_does(prepared):
    folder, rng = prepared.connectivity_dir, np.random.default_rng(0)
    one, batch = simulator(folder), make_simulator("graph")
    batch.setRenderingEnabled(False)
    batch.setNavGraphPath(str(folder))
    batch.setDiscretizedViewingAngles(True)
    batch.setCameraResolution(640, 480)
    batch.setCameraVFOV(math.radians(60))
    batch.initialize()
    one.newEpisode("oak", "oak-5", 0.3, 0)
    batch.newEpisode(["oak"], ["oak-5"], [0.3], [0])
    for step in range(40):
        state, (other,) = one.getState(), batch.getState()
        assert (state.scanId, state.step, state.heading) == ("oak", step, other.heading)
        assert (state.elevation, state.viewIndex) == (other.elevation, other.viewIndex)
        assert state.location == state.navigableLocations[0]
        for a, b in zip(state.navigableLocations, other.navigableLocations, strict=True):
            assert (a.viewpointId, a.ix, a.point) == (b.viewpointId, b.ix, [b.x, b.y, b.z])
            assert a[3:] == (b.rel_heading, b.rel_elevation, b.rel_distance)
        index = int(rng.integers(len(state.navigableLocations)))
        turn, tilt = rng.integers(-1, 2, 2).tolist()
        one.makeAction(index, turn, tilt)
        batch.makeAction([index], [turn], [tilt])


def test_states_are_snapshots(prepared):
    sim = simulator(prepared.connectivity_dir)
    sim.newEpisode("elm", "elm-0", 0, 0)
    before = sim.getState()
    sim.makeAction(0, 1, 0)
    assert (before.step, before.heading, sim.getState().heading) == (0, 0, STEP)
    before.navigableLocations.clear()
    assert sim.getState().navigableLocations


def test_may_be_closed_and_initialised_again(prepared):
    sim = simulator(prepared.connectivity_dir)
    sim.init()
    sim.newEpisode("elm", "elm-0", 0, 0)
    sim.close()
    sim.newEpisode("elm", "elm-2", 0, 0)
    assert sim.getState().location.viewpointId == "elm-2"
    for viewpoint in ("", "fir-0"):
        with pytest.raises(IndexError, match=r"'fir' is not listed in .*scans.txt"):
            sim.newEpisode("fir", viewpoint, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((99, 0, 0), ValueError, "^MatterSim: Invalid action index: 99$"),
        ((-1, 0, 0), ValueError, "^MatterSim: Invalid action index: -1$"),
        ((1.0, 0, 0), TypeError, "incompatible function arguments"),
        (([0], [0], [0]), TypeError, "incompatible function arguments"),
        ((0, "1", 0), TypeError, "incompatible function arguments"),
    ],
)
def test_refused_actions_change_nothing(prepared, arguments, error, message):
    sim = simulator(prepared.connectivity_dir)
    with pytest.raises(ValueError, match=r"^MatterSim: Invalid action index: 0$"):
        sim.makeAction(0, 0, 0)
    with pytest.raises(RuntimeError, match="newEpisode must be called before getState"):
        sim.getState()
    sim.newEpisode("oak", "oak-0", 0, 0)
    before = sim.getState()
    with pytest.raises(error, match=message):
        sim.makeAction(*arguments)
    assert sim.getState() == before


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"needs {GOLDEN}")
def test_random_starts_are_those_of_the_original():
    starts = json.loads((GOLDEN / "edge_cases_v01.json").read_text())["empty_viewpoint_is_random"]
    for seed, want in starts.items():
        sim = simulator(CONNECTIVITY, int(seed))
        got = []
        for _ in want:
            sim.newEpisode("2t7WUuJeko7", "", 0, 0)
            got.append(sim.getState().location.ix)
        assert got == want, seed
