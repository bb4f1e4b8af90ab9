"""The simulator without rendering, on a handmade house: what it shows, does and refuses."""

import copy
import json
import math
import pickle
import subprocess
import sys
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln import mattersim
from fedsuite.vln.mattersim import SimState, Simulator, ViewPoint, make_simulator
from fedsuite.vln.mattersim.buildings import NavGraphs

SCAN, EMPTY = "villa", "ruin"
STEP = math.pi / 6
# id, position (m), included. From the middle: n is 2 m ahead, e 3 m to the right and 3 m up,
# up 1 m overhead, s 4 m behind.
VIEWPOINTS = [
    ("n", (0.0, 2.0, 0.0), True),
    ("middle", (0.0, 0.0, 0.0), True),
    ("gone", (0.5, 1.0, 0.0), False),
    ("e", (3.0, 0.0, 3.0), True),
    ("up", (0.0, 0.0, 1.0), True),
    ("s", (0.0, -4.0, 0.0), True),
]
IX = {name: ix for ix, (name, _, _) in enumerate(VIEWPOINTS)}


def panorama(name, position_m, included, flags):
    pose = np.eye(4)
    pose[:3, 3] = position_m
    return {
        "image_id": name,
        "pose": pose.ravel().tolist(),
        "included": included,
        "unobstructed": flags,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Everything is joined to "middle", itself included; s has no way back."""
    rows = [
        panorama(n, p, inc, [n == "middle" or (name == "middle" and n != "s") for name in IX])
        for n, p, inc in VIEWPOINTS
    ]
    (tmp_path / f"{SCAN}_connectivity.json").write_text(json.dumps(rows))
    ruin = [panorama("x", (0, 0, 0), False, [False])]
    (tmp_path / f"{EMPTY}_connectivity.json").write_text(json.dumps(ruin))
    (tmp_path / "scans.txt").write_text(f"{SCAN}\n{EMPTY} missing\n")
    return tmp_path


def simulator(folder, batch=1, discretized=True, restricted=True, seed=None):
    sim = Simulator(NavGraphs())
    sim.setRenderingEnabled(False)
    sim.setNavGraphPath(str(folder))
    sim.setDiscretizedViewingAngles(discretized)
    sim.setRestrictedNavigation(restricted)
    sim.setCameraResolution(640, 480)
    sim.setCameraVFOV(math.radians(60))
    sim.setBatchSize(batch)
    if seed is not None:
        sim.setSeed(seed)
    sim.initialize()
    return sim


def at(sim, name="middle", heading=0.0, elevation=0.0):
    sim.newEpisode([SCAN], [name], [heading], [elevation])
    return sim.getState()[0]


def names(state):
    return [v.viewpointId for v in state.navigableLocations]


def test_what_a_camera_sees_by_hand(folder):
    state = at(simulator(folder, restricted=False))
    assert names(state) == ["middle", "n", "up", "e", "s"]  # by angle: 0, 0, 90, hypot(90, 45), 180
    here, n, up, e, s = state.navigableLocations
    assert (here.rel_heading, here.rel_elevation, here.rel_distance) == (0, 0, 0)
    assert n.rel_distance == 2 and n.rel_heading == pytest.approx(0, abs=1e-6)
    assert (e.x, e.y, e.z, e.ix) == (3, 0, 3, IX["e"])
    assert e.rel_heading == pytest.approx(math.pi / 2)
    assert e.rel_elevation == pytest.approx(math.pi / 4)
    assert e.rel_distance == pytest.approx(math.sqrt(18))
    assert (up.rel_heading, up.rel_elevation, up.rel_distance) == (0, math.pi / 2, 1)
    assert abs(s.rel_heading) == pytest.approx(math.pi)


def test_field_of_view_is_80_degrees_wide_for_r2r(folder):
    sim = simulator(folder, discretized=False)
    for degrees, seen in [(0, True), (-39.9, True), (39.9, True), (40.1, False), (-40.1, False)]:
        assert ("n" in names(at(sim, heading=math.radians(degrees)))) is seen
    assert "e" in names(at(sim, heading=math.pi / 2, elevation=-0.9))  # elevation plays no part
    assert "up" not in names(at(sim))  # right overhead: in no field of view
    sim.setCameraResolution(480, 480)  # 60 degrees wide, from the next episode on
    assert "n" not in names(at(sim, heading=math.radians(31)))
    sim.setCameraResolution(640, 0)
    assert names(at(sim)) == ["middle"]


def test_edges_are_directed_and_excluded_panoramas_are_not_navigable(folder):
    sim = simulator(folder, restricted=False)
    assert names(at(sim, "n")) == ["n", "middle"]
    assert names(at(sim, "s")) == ["s"]
    assert "gone" not in names(at(sim))


def test_actions_move_first_and_then_turn_by_30_degrees(folder):
    sim = simulator(folder)
    state = at(sim, heading=3 * STEP)
    assert (names(state), state.viewIndex, state.step) == (["middle", "e"], 15, 0)
    sim.makeAction([1], [1e-300], [-7])
    assert (state.location.viewpointId, state.viewIndex, state.step) == ("e", 4, 1)
    assert (state.heading, state.elevation) == (4 * STEP, -STEP)
    sim.makeAction([0], [0], [-1])  # the bottom row ends
    assert (state.viewIndex, state.step) == (4, 2)
    start = state.heading
    for _ in range(12):
        sim.makeAction([0], [-1], [0])
    assert state.heading == start


def test_continuous_camera_adds_angles_and_keeps_to_the_limits(folder):
    sim = simulator(folder, discretized=False)
    state = at(sim, heading=-0.1, elevation=5)
    assert (state.heading, state.elevation, state.viewIndex) == (2 * math.pi - 0.1, 0.94, 0)
    limits = [(-0.2, 0.3), (0, 0.3), (-0.3, 0), (-0.3, math.pi / 2), (math.nan, 0.3)]
    assert [sim.setElevationLimits(*pair) for pair in limits] == [True] + [False] * 4
    assert state.elevation == 0.94
    sim.makeAction([0], [0.25], [-0.01])
    assert state.heading == pytest.approx(0.15) and state.elevation == 0.3
    assert at(sim, heading=-1e-20).heading == 2 * math.pi
    assert math.copysign(1, at(sim, heading=-2 * math.pi).heading) == -1


@pytest.mark.parametrize(
    ("angle", "column"),
    [(0.5, 1), (0.49999999999999994, 0), (11.5, 0), (11.499, 11), (-1, 11), (12, 0), (13.4, 1)],
)
def test_headings_snap_to_the_nearest_step(folder, angle, column):
    assert at(simulator(folder), heading=angle * STEP).viewIndex == 12 + column


def test_elevations_snap_to_level_from_exactly_15_degrees(folder):
    sim = simulator(folder)
    for angle, row in [(15, 1), (-15, 1), (15.001, 2), (-15.001, 0), (80, 2), (math.nan, 1)]:
        assert at(sim, elevation=math.radians(angle)).viewIndex == 12 * row


def test_angles_that_are_not_numbers(folder):
    free, restricted = simulator(folder, 1, False, False), simulator(folder, discretized=False)
    assert names(at(restricted, heading=math.nan)) == ["middle"]
    assert math.isnan(at(restricted, heading=-math.inf).heading)
    assert names(at(free, heading=math.inf)) == ["middle", "n", "e", "up", "s"]  # file order
    assert at(restricted, elevation=-math.inf).elevation == -0.94
    state = at(simulator(folder), heading=math.inf, elevation=math.inf)
    assert (state.heading, state.elevation, state.viewIndex) == (0, STEP, 24)


def test_states_are_live_and_chosen_viewpoint_becomes_location(folder):
    sim = simulator(folder)
    state = at(sim)
    old, kept = state.location, state.navigableLocations
    assert kept is not state.navigableLocations and kept[0] is old
    assert kept[1] is state.navigableLocations[1] and kept[1].rel_distance == 2
    sim.makeAction([1], [0], [0])
    assert sim.getState()[0] is state and sim.getState() is not sim.getState()
    assert state.location is kept[1] and kept[1].rel_distance == 0
    assert old.viewpointId == "middle" and len(kept) == 2
    assert at(sim) is state and state.step == 0


def test_objects_are_read_only_and_the_simulators_own(folder):
    sim = simulator(folder)
    state = at(sim)
    for target, name in [(state, "heading"), (state.location, "x"), (state, "foo")]:
        with pytest.raises(AttributeError):
            setattr(target, name, 1)
    for kind in (SimState, ViewPoint):
        with pytest.raises(TypeError, match=f"MatterSim.{kind.__name__}: No constructor defined!"):
            kind()
    for thing in (sim, state, state.location):
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(thing)
        with pytest.raises(TypeError, match="cannot pickle"):
            copy.deepcopy(thing)


def test_images_are_black_and_keep_the_size_of_initialize(folder):
    sim = simulator(folder)
    state = at(sim)
    sim.setCameraResolution(10, 10)
    rgb, depth = np.array(state.rgb, copy=False), np.array(state.depth, copy=False)
    assert (rgb.shape, rgb.dtype, rgb.any()) == ((480, 640, 3), np.uint8, False)
    assert (depth.shape, depth.dtype, depth.any()) == ((480, 640, 1), np.uint16, False)
    with pytest.raises(RuntimeError, match=r"setRenderingEnabled\(False\)"):
        Simulator().initialize()


def test_settings_are_ignored_once_initialised(folder):
    sim = simulator(folder)
    sim.setDiscretizedViewingAngles(False)
    sim.setRestrictedNavigation(False)
    sim.setBatchSize(5)
    sim.setNavGraphPath("/nowhere")
    state = at(sim, heading=0.1)
    assert (state.heading, names(state), len(sim.getState())) == (0, ["middle", "n"], 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([2], [0], [0]), ValueError, "^MatterSim: Invalid action index: 2 in environment 0 of 1$"),
        (([-1], [0], [0]), TypeError, "incompatible function arguments"),
        (([1.0], [0], [0]), TypeError, "incompatible function arguments"),
        (([None], [0], [0]), TypeError, "incompatible function arguments"),
        (([0], ["1"], [0]), TypeError, "incompatible function arguments"),
        (([0], [0], [None]), TypeError, "incompatible function arguments"),
        ((0, 0, 0), TypeError, "incompatible function arguments"),
        ((iter([0]), [0], [0]), TypeError, "incompatible function arguments"),
        (([], [0], [0]), IndexError, r"__n \(which is 0\) >= this->size\(\) \(which is 0\)"),
        (([0], [0]), TypeError, "missing 1 required positional argument"),
    ],
)
def test_refused_actions_change_nothing(folder, arguments, error, message):
    sim = simulator(folder)
    state = at(sim)
    with pytest.raises(error, match=message):
        sim.makeAction(*arguments)
    assert (state.step, state.location.viewpointId, state.viewIndex) == (0, "middle", 12)


@pytest.mark.parametrize(
    "index", [[1], (1,), [True], [np.int64(1)], np.array([1]), np.array([1], np.uint8), [1, 99]]
)
def test_accepted_actions(folder, index):
    sim = simulator(folder)
    state = at(sim)
    sim.makeAction(index, np.array([0.0]), (np.float32(0),))
    assert state.location.viewpointId == "n"
    with pytest.raises(TypeError):
        sim.makeAction(index=[0], heading=[0], elevation=[0])


def test_one_bad_environment_stops_the_whole_batch(folder):
    sim = simulator(folder, batch=2)
    sim.newEpisode([SCAN] * 2, ["middle"] * 2, [0, 0], [0, 0])
    with pytest.raises(ValueError, match="index: 99 in environment 1 of 2"):
        sim.makeAction([1, 99], [0, 0], [0, 0])
    with pytest.raises(IndexError, match=r"vector::_M_range_check: __n \(which is 1\)"):
        sim.newEpisode([SCAN] * 2, ["middle"] * 2, [0], [0, 0])
    assert [s.step for s in sim.getState()] == [0, 0]
    assert [s.location.viewpointId for s in sim.getState()] == ["middle", "middle"]


@pytest.mark.parametrize(
    ("scan", "viewpoint", "error", "message"),
    [
        (SCAN, "nope", ValueError, "^MatterSim: Could not find viewpointId: nope, is viewp"),
        (SCAN, "", ValueError, "^MatterSim: Could not find viewpointId: , is viewpoint id valid"),
        (SCAN, "gone", ValueError, "^MatterSim: ViewpointId: gone, is excluded from"),
        ("nope", "middle", IndexError, r"^map::at.*'nope'.*scans.txt"),
        ("missing", "a", InputError, r"missing_connectivity\.json: no such file"),
    ],
)  # fmt: skip
def test_refused_episodes(folder, scan, viewpoint, error, message):
    sim = simulator(folder)
    state = at(sim)
    with pytest.raises(error, match=message):
        sim.newEpisode([scan], [viewpoint], [1], [0])
    assert (state.scanId, state.location.viewpointId, state.heading) == (SCAN, "middle", 0)


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"image_id": "a"}]', '[{"included": true}]'])
def test_damaged_house_file_is_an_input_error_that_names_it(folder, text):
    (folder / "missing_connectivity.json").write_text(text)
    with pytest.raises(InputError, match=r"missing_connectivity\.json") as caught:
        simulator(folder).newEpisode(["missing"], ["a"], [0], [0])
    assert "\n" not in str(caught.value)


def test_short_row_of_flags_is_an_input_error(folder):
    rows = [panorama(n, (0, 0, 0), True, [True]) for n in "ab"]
    (folder / "missing_connectivity.json").write_text(json.dumps(rows))
    with pytest.raises(InputError, match=r"panorama 0, 'a': .*1 unobstructed flags, expected 2"):
        simulator(folder).newRandomEpisode(["missing"])


@pytest.mark.parametrize("scan", ["../evil", "/evil", "a/b", "..", "a\\b"])
def test_a_listed_scan_that_leads_elsewhere_is_refused(folder, scan):
    (folder / "scans.txt").write_text(f"{SCAN}\n{scan}\n")
    with pytest.raises(InputError) as caught:
        at(simulator(folder))
    line = str(caught.value)
    assert "\n" not in line and f"{folder / 'scans.txt'}: a scan must be" in line
    assert repr(scan) in line


def test_life_cycle(folder):
    sim = Simulator(NavGraphs())
    sim.setRenderingEnabled(False)
    sim.setDiscretizedViewingAngles(True)
    assert sim.getState() == []
    with pytest.raises(
        RuntimeError, match=r"^MatterSim: newEpisode must be called before makeAction$"
    ):
        sim.makeAction([0], [0], [0])
    sim.setNavGraphPath(str(folder / "nowhere"))
    with pytest.raises(ValueError, match=r"Could not open list of scans at: .*nowhere.scans\.txt"):
        at(sim)
    (state,) = sim.getState()
    assert (state.scanId, state.location, state.navigableLocations) == ("", None, [])
    with pytest.raises(ValueError, match="Invalid action index: 0"):
        sim.makeAction([0], [0], [0])
    sim.close()
    sim.close()
    sim.setNavGraphPath(str(folder))
    with pytest.raises(IndexError):  # a second batch of states
        at(sim)
    sim.newEpisode([SCAN] * 2, ["n"] * 2, [0] * 2, [0] * 2)
    assert len(sim.getState()) == 2
    assert "Rendered 0 frames" in sim.timingInfo()


def test_an_empty_batch_does_nothing(folder):
    sim = simulator(folder, batch=0)
    sim.newEpisode([], [], [], [])
    sim.makeAction([], [], [])
    assert sim.getState() == []


def test_simulators_of_a_process_share_graphs(folder, tmp_path):
    mattersim.process_nav_graphs.cache_clear()
    first, second = Simulator(), Simulator()
    for sim, path in ((first, folder), (second, tmp_path / "nowhere")):
        sim.setRenderingEnabled(False)
        sim.setNavGraphPath(str(path))
        assert at(sim).scanId == SCAN
    assert first.getState()[0] is not second.getState()[0]
    mattersim.process_nav_graphs.cache_clear()
    with pytest.raises(InputError, match="nowhere"):
        at(second)
    mattersim.process_nav_graphs.cache_clear()


@pytest.mark.parametrize("seed", [None, 0, 1, 7, 10**6, 2**31 - 1, -1])
def test_random_starts_follow_the_closed_form_of_the_generator(folder, seed):
    """Draw n is 16807^n * seed mod (2^31 - 1); of 6 viewpoints 5 are included."""
    modulus, count = 2**31 - 1, 40
    start = (1 if seed is None else seed) % 2**64 % modulus or 1
    draws = [pow(16807, n, modulus) * start % modulus - 1 for n in range(1, count + 1)]
    expected = [d // ((modulus - 2) // 6) for d in draws]
    expected = [IX["e"] if ix == IX["gone"] else ix for ix in expected]
    sim = simulator(folder, batch=count, seed=seed)
    sim.newRandomEpisode([SCAN] * count)
    assert [s.location.ix for s in sim.getState()] == expected


def test_random_headings_restart_at_every_call(folder):
    sim, span = simulator(folder, batch=3, discretized=False), 2**31 - 2
    draws = [pow(16807, n, 2**31 - 1) - 1 for n in range(1, 7)]
    share = [Fraction(a + b * span, span**2) for a, b in zip(draws[::2], draws[1::2], strict=True)]
    for _ in range(2):
        sim.newRandomEpisode([SCAN] * 3)
        headings = [s.heading for s in sim.getState()]
        assert headings == pytest.approx([2 * math.pi * float(u) for u in share], rel=1e-14)
    assert headings[0] == 0.8264762952590881
    assert {s.elevation for s in sim.getState()} == {0.0}


def test_random_start_needs_an_included_viewpoint(folder):
    with pytest.raises(RuntimeError, match=r"^MatterSim: ScanId: ruin has no included viewpoints!"):
        simulator(folder).newRandomEpisode([EMPTY])
    with pytest.raises(TypeError, match="incompatible"):
        simulator(folder).newRandomEpisode(SCAN)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.setBatchSize(-1),
        lambda s: s.setCacheSize(1.5),
        lambda s: s.setSeed("1"),
        lambda s: s.setCameraResolution(640.0, 480),
        lambda s: s.setCameraVFOV("wide"),
        lambda s: s.setNavGraphPath(Path(".")),
        lambda s: s.setDiscretizedViewingAngles("False"),
        lambda s: s.setSeed(seed=1),
    ],
)
def test_settings_of_the_wrong_type(call):
    with pytest.raises(TypeError):
        call(Simulator())


def test_make_simulator(monkeypatch):
    assert type(make_simulator("graph")) is Simulator
    with pytest.raises(InputError, match='"graph" or "mattersim", got \'unity\''):
        make_simulator("unity")
    monkeypatch.setitem(sys.modules, "MatterSim", None)
    with pytest.raises(InputError, match=r"cannot import MatterSim .*from source .*PYTHONPATH"):
        make_simulator("mattersim")
    monkeypatch.setitem(sys.modules, "MatterSim", types.ModuleType("MatterSim"))
    with pytest.raises(InputError, match=r"PyPI is unrelated.*from source"):
        make_simulator("mattersim")
    fake = types.ModuleType("MatterSim")
    fake.Simulator = type("Simulator", (), {"makeAction": None})
    monkeypatch.setitem(sys.modules, "MatterSim", fake)
    assert type(make_simulator("mattersim")) is fake.Simulator


def test_made_simulators_keep_to_their_own_folder(folder, tmp_path):
    first, second = make_simulator("graph"), make_simulator("graph")
    for sim, path in ((first, folder), (second, tmp_path / "nowhere")):
        sim.setRenderingEnabled(False)
        sim.setNavGraphPath(str(path))
    assert at(first).scanId == SCAN
    with pytest.raises(InputError, match="nowhere"):
        at(second)


def test_simulator_does_not_need_torch():
    script = "import sys, fedsuite.vln.mattersim; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", script], cwd=root, check=False).returncode == 0
