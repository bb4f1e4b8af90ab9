"""Ten thousand drawn configurations, good and bad: each is read and checked, or refused as bad input."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

import fedsuite.driving.checks
import fedsuite.driving.trials
from fedsuite.driving.model.networks import STEERING_NETWORKS
from fedsuite.driving.plan import initial_network
from fedsuite.errors import InputError
from fedsuite.randomness import rng_for
from fedsuite.settings.config import Limits, limits_of, read_config, to_flat, types_of
from simulations.systems import load_system, settings_of, to_run_config
from tests.mistakes.refusing import SYSTEMS

BLOCKS, PER_BLOCK = 10, 334  # of every system
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**400, 0x7F << 20000, float("nan"), float("inf"), -0.0, 1e308, 5e-324, "", "x", " ",
    "\0", "\x1b[31m", "a" * 5000, "\U0001f600", "\udcff", "~nouser-xyz", "a/b", "..", "json:loads", ":", [], [1], {},
    {"a": 1}, {"a": {"b": {}}}, b"bytes", object,
)  # fmt: skip


def drawn(rng: Any, system: str, count: int) -> dict[str, Any]:
    """Some keys: mostly values that they may have, at the ends too, else beyond them, or anything at all."""
    cls = load_system(system).config_class
    limits, types = limits_of(cls), types_of(cls)
    keys = [k for k in limits if k != "system"]
    found: dict[str, Any] = {}
    for key in rng.choice(keys, count, replace=False):
        own, kind, fate = limits[key], types[key], rng.random()
        if fate < 0.02:
            found[str(rng.choice([key + "s", key[1:], f"data.{key}", key.upper(), "data"]))] = 1
        elif fate < 0.05:
            found[key] = ODD[rng.integers(len(ODD))]
        else:
            found[key] = value_of(rng, own, kind, beyond=fate < 0.08)
    return found


def value_of(rng: Any, own: Limits, kind: type, beyond: bool) -> Any:
    """A value of the right type."""
    if own.choices is not None:
        return own.choices[rng.integers(len(own.choices))]
    if kind is bool:
        return bool(rng.random() < 0.5)
    if kind is str:
        return str(rng.choice(["", "", "x", "mean", "none", "nowhere/at/all"]))
    low = own.ge if own.ge is not None else own.gt
    high = own.le if own.le is not None else own.lt
    assert low is not None and high is not None
    ends = [low, high, low + 1, min(high, low + 10), (low + min(high, 100)) / 2]
    value = ends[rng.integers(len(ends))] + (high - low + 1 if beyond else 0)
    return kind(value)


@cache
def _network(model: str, image_size: int, channels: int, norm: str) -> Any:
    """One network of a kind for all configurations: building them is what takes time."""
    keys = {"network.model": model, "data.image-size": image_size, "data.channels": channels}
    return initial_network(read_config(load_system("cdl").config_class, {**keys, "network.batch-norm": norm}))  # fmt: skip


@pytest.fixture(autouse=True)
def few_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every model one size, and no overlays of many silos: those have tests of their own."""
    monkeypatch.setattr(fedsuite.driving.checks, "make_plan", lambda config: None)
    monkeypatch.setattr(
        fedsuite.driving.trials,
        "initial_network",
        lambda c: _network(
            "resnet8" if c.network.model in STEERING_NETWORKS else c.network.model,
            min(c.data.image_size, 40), c.data.channels, c.network.batch_norm,
        ),
    )  # fmt: skip


def outcome(system: str, keys: Mapping[str, Any]) -> str:
    """What becomes of a configuration: "good", "refused by validate" or "refused by read_config"."""
    own = load_system(system)
    try:
        settings = read_config(own.config_class, keys, "drawn")
    except InputError as error:
        line = str(error)
        assert line.startswith("drawn: ") and len(line) < 3000
        assert line.isprintable() or "\n" not in line
        return "refused by read_config"
    assert settings_of(to_run_config(settings))[1] == settings
    assert read_config(own.config_class, to_flat(settings)) == settings
    try:
        own.validate(settings)
    except InputError as error:
        assert any(key in str(error) for key in limits_of(own.config_class)), error
        return "refused by validate"
    return "good"


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("system", SYSTEMS)
def test_drawn_configurations_are_good_or_refused(system: str, block: int) -> None:
    rng, seen = rng_for(block, f"fuzzed {system}"), dict[str, int]()
    for _ in range(PER_BLOCK):
        found = outcome(system, drawn(rng, system, int(rng.integers(1, 12))))
        seen[found] = seen.get(found, 0) + 1
    assert min(seen.values()) >= 5 and len(seen) == 3, seen
