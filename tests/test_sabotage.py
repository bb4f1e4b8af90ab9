"""What saboteurs send, against numbers worked by hand."""

import numpy as np
import pytest

from fedsuite.averaging.sabotage.attacks import ATTACKS, Known, alie_z, change
from fedsuite.averaging.sabotage.settings import SabotageSettings
from fedsuite.errors import InputError

START = {"w": np.array([1.0, 2.0], np.float32), "n": np.asarray(3)}
OWN = {"w": np.array([1.5, 1.0], np.float32), "n": np.asarray(4)}
HONEST = [{"w": np.array(d)} for d in [(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2)]]


def sent(attack: str, scale: float | None = None, changes=tuple(HONEST), hostile: int = 1):
    known = Known(list(changes), hostile, scale, np.random.default_rng(0))
    return ATTACKS[attack](START, OWN, known)


@pytest.mark.parametrize(
    ("attack", "scale", "want"),
    [
        ("sign-flip", None, (0.5, 3.0)),
        ("sign-flip", 10.0, (-4.0, 12.0)),
        ("scale", None, (51.0, -98.0)),
        ("scale", 2.0, (2.0, 0.0)),
        ("ipm", None, (1 - 0.5833333333, 2 - 0.5833333333)),
        ("ipm", 10.0, (1 - 11.6666666667, 2 - 11.6666666667)),
        # Mean 7/6, variance 17/36; 1.5 deviations below.
        ("alie", 1.5, (1 + 7 / 6 - 1.5 * np.sqrt(17) / 6, 2 + 7 / 6 - 1.5 * np.sqrt(17) / 6)),
    ],
)
def test_by_hand(attack, scale, want):
    made = sent(attack, scale)
    np.testing.assert_allclose(made["w"], want)
    assert made.keys() == {"w"}  # whole numbers go as they are


@pytest.mark.parametrize(
    ("clients", "hostile", "want"), [(12, 2, 0.0), (12, 3, 0.1397103), (50, 12, 0.3360381)]
)
def test_what_goes_unnoticed(clients, hostile, want):
    assert alie_z(clients, hostile) == pytest.approx(want, abs=1e-7)


def test_with_as_many_hostile_as_need_be_the_mean_is_sent():
    """n = 12, m = 2: five of the ten honest have to be outdone, half of them: z = 0."""
    changes = [{"w": np.array([float(k), -1.0])} for k in range(10)]
    np.testing.assert_allclose(sent("alie", None, changes, 2)["w"], (1 + 4.5, 1.0))


def test_as_many_deviations_as_nine_honest_and_three_hostile_allow():
    changes = [{"w": np.array([float(k), -1.0])} for k in range(9)]
    below = 0.1397103 * np.sqrt(60 / 9)  # the variance of 0 to 8
    np.testing.assert_allclose(sent("alie", None, changes, 3)["w"], (1 + 4 - below, 1.0), rtol=1e-6)


def test_noise_is_as_large_as_the_own_change_and_repeats_with_its_stream():
    start, own = {"w": np.zeros(20_000)}, {"w": np.tile([3.0, -3.0], 10_000)}
    noise = [
        ATTACKS["gaussian"](start, own, Known([], 1, None, np.random.default_rng(1)))["w"]
        for _ in range(2)
    ]
    assert noise[0].tobytes() == noise[1].tobytes()
    assert noise[0].std() == pytest.approx(3, rel=0.02) and abs(noise[0].mean()) < 0.1


@pytest.mark.parametrize("attack", ["alie", "ipm"])
def test_with_nobody_to_hide_among_an_honest_update_is_sent(attack):
    assert sent(attack, None, ()) == {}


def test_changes_are_of_floating_point_arrays():
    assert change(START, OWN).keys() == {"w"}
    np.testing.assert_allclose(change(START, OWN)["w"], (0.5, -1.0))


@pytest.mark.parametrize(
    ("text", "want"), [("", ()), ("0", (0,)), ("5,2,2", (2, 5)), ("11,0", (0, 11))]
)
def test_who_is_hostile(text, want):
    assert SabotageSettings(clients=text).partitions == want


@pytest.mark.parametrize("text", ["a", "1;2", "-1", "1,", "1 2", "1.5", "9" * 400])
def test_lists_that_are_none(text):
    with pytest.raises(
        InputError, match=r"sabotage\.clients: expected partitions such as 0 or 2,5"
    ):
        _ = SabotageSettings(clients=text).partitions


def test_saboteurs_are_for_simulations_and_some_for_parallel_rounds():
    hostile = SabotageSettings(clients="1", attack="alie")
    hostile.check()
    SabotageSettings().check(in_turn=True, real=True)
    with pytest.raises(InputError, match=r"sabotage\.attack: alie .* clients train in turn"):
        hostile.check(in_turn=True)
    with pytest.raises(InputError, match=r"sabotage\.clients: for simulations only"):
        hostile.check(real=True)
