"""The simulator without rendering against recordings of the original on the 90 R2R houses."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsuite.vln.mattersim import SimState, Simulator, ViewPoint
from fedsuite.vln.mattersim.buildings import NavGraphs

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT.parent / "shared" / "golden" / "mattersim"
CONNECTIVITY = ROOT.parent / "shared" / "data" / "r2r" / "connectivity"
pytestmark = pytest.mark.skipif(
    not (GOLDEN.is_dir() and CONNECTIVITY.is_dir()), reason=f"needs {GOLDEN} and {CONNECTIVITY}"
)
SCAN, VIEWPOINT = "2t7WUuJeko7", "1e6b606b44df4a6086c0f97e826d4d15"
NOT_A_NUMBER = ["nan_discrete", "nan_heading_continuous", "nan_elevation_continuous"]


def replay(sweep: int) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        str(GOLDEN / "check_golden.py"),
        "--module",
        "fedsuite.vln.mattersim",
    ]
    options = ["--connectivity", str(CONNECTIVITY), "--random", "--sweep", str(sweep)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command + options, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_replays_all_traces():
    done = replay(sweep=3)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TOTAL states 10574 mismatching 0" in done.stdout


@pytest.mark.slow
def test_replays_all_views_of_all_viewpoints():
    done = replay(sweep=0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "views  380412  mismatching 0" in done.stdout


@pytest.fixture(scope="module")
def graphs():
    shared = NavGraphs()
    shared.open(str(CONNECTIVITY), 1)
    return shared


@pytest.fixture(scope="module")
def cases():
    return json.loads((GOLDEN / "edge_cases_v2.json").read_text())


def simulator(graphs, batch=1, discretized=True, restricted=True, vfov_deg=60.0):
    sim = Simulator(graphs)
    sim.setRenderingEnabled(False)
    sim.setDiscretizedViewingAngles(discretized)
    sim.setRestrictedNavigation(restricted)
    sim.setCameraResolution(640, 480)
    sim.setCameraVFOV(math.radians(vfov_deg))
    sim.setBatchSize(batch)
    sim.initialize()
    return sim


def at(sim, heading=0.0, elevation=0.0):
    batch = len(sim.getState())
    sim.newEpisode([SCAN] * batch, [VIEWPOINT] * batch, [heading] * batch, [elevation] * batch)
    return sim.getState()[0]


def observed(state):
    return {
        "scanId": state.scanId,
        "vp": state.location.viewpointId,
        "step": state.step,
        "heading": repr(state.heading),
        "elevation": repr(state.elevation),
        "viewIndex": state.viewIndex,
        "nav": [v.ix for v in state.navigableLocations],
    }


REFUSED = {
    "action_index_too_large": (1, ([3], [0], [0])),
    "action_index_negative": (1, ([-1], [0], [0])),
    "action_index_float": (1, ([1.0], [0], [0])),
    "action_scalars": (1, (0, 0, 0)),
    "action_none": (1, ([None], [0], [0])),
    "action_string_angle": (1, ([0], ["1"], [0])),
    "action_list_too_short": (2, ([1], [0, 0], [0, 0])),
    "action_heading_list_too_short": (2, ([1, 1], [0], [0, 0])),
    "action_partial_batch_failure": (2, ([1, 99], [0, 0], [0, 0])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_actions(graphs, cases, case):
    batch, arguments = REFUSED[case]
    sim = simulator(graphs, batch)
    before = observed(at(sim))
    with pytest.raises(Exception) as caught:
        sim.makeAction(*arguments)
    want = cases[case]
    assert caught.type.__name__ == want["type"]
    if want["type"] != "TypeError":
        assert str(caught.value).startswith(want["msg"])
    assert [observed(s) for s in sim.getState()] == [before] * batch  # unlike the original's


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("action_index_numpy_int64", ([np.int64(1)], [0], [0])),
        ("action_numpy_arrays", (np.array([1]), np.array([0.0]), np.array([0.0]))),
        ("action_tuple", ((1,), (0,), (0,))),
        ("action_bool_true", ([True], [0], [0])),
        ("action_list_too_long", ([1, 1], [0, 0], [0, 0])),
    ],
)
def test_accepted_actions(graphs, cases, case, arguments):
    sim = simulator(graphs)
    state = at(sim)
    sim.makeAction(*arguments)
    assert observed(state) == cases[case]["after"]


@pytest.mark.parametrize(
    ("case", "scan", "viewpoint"),
    [
        ("unknown_scan", "nope", VIEWPOINT),
        ("unknown_viewpoint", SCAN, "nope"),
        ("empty_viewpoint", SCAN, ""),
        ("excluded_viewpoint", "17DRP5sb8fy", "cb6a9786e4ff47f79a11b024c36ef7c0"),
        ("viewpoint_of_other_scan", "17DRP5sb8fy", VIEWPOINT),
    ],
)
def test_refused_episodes(graphs, cases, case, scan, viewpoint):
    with pytest.raises(Exception) as caught:
        simulator(graphs).newEpisode([scan], [viewpoint], [0], [0])
    assert caught.type.__name__ == cases[case]["type"]
    assert str(caught.value).startswith(cases[case]["msg"])


def test_normalisation_and_snapping(graphs, cases):
    free, snapping = simulator(graphs, discretized=False), simulator(graphs)
    for heading, want in cases["heading_normalisation_continuous"].items():
        assert repr(at(free, float(heading)).heading) == want, heading
    for heading, (angle, view) in cases["heading_snap_discrete"].items():
        state = at(snapping, float(heading))
        assert (repr(state.heading), state.viewIndex) == (angle, view), heading
    for elevation, (angle, view) in cases["elevation_snap_discrete"].items():
        state = at(snapping, 0.0, float(elevation))
        assert (repr(state.elevation), state.viewIndex) == (angle, view), elevation


def test_only_the_sign_of_a_discretised_action_counts(graphs, cases):
    sim = simulator(graphs)
    state = at(sim)
    for turn, tilt, *want in cases["sign_only_actions_discrete"]:
        sim.makeAction([0], [turn], [tilt])
        assert [state.heading, state.elevation, state.viewIndex] == want


@pytest.mark.parametrize("case", NOT_A_NUMBER)
def test_angles_that_are_not_numbers(graphs, cases, case):
    sim = simulator(graphs, discretized=case == "nan_discrete")
    heading = 0.0 if "elevation" in case else math.nan
    elevation = 0.0 if "heading" in case else math.nan
    assert observed(at(sim, heading, elevation)) == cases[case]["st"]


def test_infinite_angles(graphs, cases):
    for case, letter in (("inf_heading", "h"), ("inf_elevation", "e")):
        for name, (_, want) in cases[case].items():
            sim = simulator(graphs, discretized="True" in name)
            value = -math.inf if "=-inf" in name else math.inf
            pose = (value, 0.0) if letter == "h" else (0.0, value)
            assert observed(at(sim, *pose)) == want, name


def test_unrestricted_with_a_heading_that_is_not_a_number(graphs, cases):
    state = at(simulator(graphs, discretized=False, restricted=False), math.nan)
    assert observed(state) == cases["nan_heading_unrestricted"]["st"]
    headings = [repr(v.rel_heading) for v in state.navigableLocations]
    assert headings == cases["nan_heading_unrestricted"]["rel_h"]


def test_wide_fields_of_view_fold_back(graphs, cases):
    for name, want in cases["wide_fov"].items():
        vfov_deg = float(name.split()[0].removeprefix("vfov="))
        assert observed(at(simulator(graphs, vfov_deg=vfov_deg)))["nav"] == want, name


def test_settings_that_act_after_initialize(graphs, cases):
    want = cases["config_after_initialize"]
    sim = simulator(graphs)
    state = at(sim)
    got = {"a": observed(state)}
    sim.setDiscretizedViewingAngles(False)
    sim.setRestrictedNavigation(False)
    sim.setBatchSize(5)
    sim.makeAction([0], [0.1], [0])
    got["after_disc_False_restricted_False_batch5"] = observed(state)
    sim.setCameraVFOV(math.radians(150))
    sim.makeAction([0], [0], [0])
    got["after_vfov150"] = observed(state)
    sim.setCameraVFOV(math.radians(60))
    sim.setCameraResolution(480, 480)
    sim.makeAction([0], [0], [0])
    got["after_res480x480"] = observed(state)
    got["rgb_shape_after_res_change"] = list(state.rgb.shape)
    assert got == want


def test_public_names(cases):
    surface = cases["module_surface"]
    for kind in (Simulator, SimState, ViewPoint):
        assert [n for n in dir(kind) if not n.startswith("_")] == surface[kind.__name__]
