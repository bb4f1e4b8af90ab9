"""Model state as named arrays."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsuite import arrays
from fedsuite.arrays import (
    Share,
    fingerprint,
    load_arrays,
    load_arrays_once,
    module_arrays,
    non_finite,
    num_bytes,
    range_complaint,
    under_prefix,
    with_prefix,
)


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_round_trip_keeps_every_value_and_the_order():
    source, target = module(), module()
    with torch.no_grad():
        for p in target.parameters():
            p.add_(1)
    arrays = module_arrays(source)
    assert list(arrays) == list(source.state_dict())
    load_arrays(target, arrays)
    for name, value in target.state_dict().items():
        assert torch.equal(value, source.state_dict()[name])


def test_arrays_are_copies_in_both_directions():
    m = module()
    arrays = module_arrays(m)
    arrays["0.weight"][:] = 9
    assert not (m[0].weight == 9).any()
    load_arrays(m, arrays)
    arrays["0.weight"][:] = 8
    assert (m[0].weight == 9).all()


def test_read_only_arrays_can_be_loaded():
    """Arrays that come out of a message are read-only views of its bytes; the module can go on learning."""
    m = module()
    arrays = {k: np.asarray(v + 1) for k, v in module_arrays(m).items()}
    for a in arrays.values():
        a.flags.writeable = False
    load_arrays(m, arrays)
    with torch.no_grad():
        for value in m.state_dict().values():
            value += 1
    for name, value in module_arrays(m).items():
        np.testing.assert_array_equal(value, arrays[name] + 1)


def loaded_by(act, monkeypatch):
    """How often a module was loaded: with arrays, with them again after `act`, which may give others; and its arrays."""
    calls, own = [], module()
    monkeypatch.setattr(arrays, "load_arrays", lambda *a: (calls.append(1), load_arrays(*a)))
    first = {name: np.asarray(a + 1) for name, a in module_arrays(own).items()}
    load_arrays_once(own, first)
    load_arrays_once(own, first)
    assert len(calls) == 1
    second = act(own, first) or first
    load_arrays_once(own, second)
    assert fingerprint(module_arrays(own)) == fingerprint(second)
    return len(calls)


def step(own, first):
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    for p in own.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()


def buffer(own, first):
    own[1].running_mean.mul_(2)


def swapped(own, first):
    return {**first, "0.bias": first["1.bias"], "1.bias": first["0.bias"]}


CHANGES = {
    "a step": step,
    "a buffer": buffer,
    "other arrays": lambda own, first: load_arrays(own, module_arrays(module())),
    "torch's own": lambda own, first: own.load_state_dict(module().state_dict()) and None,
    "copies": lambda own, first: {name: a.copy() for name, a in first.items()},
    "one array": lambda own, first: {**first, "0.weight": first["0.weight"] * 2},
    "names": swapped,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_module_has_is_loaded_anew_where_anything_has_changed(change, monkeypatch):
    assert loaded_by(CHANGES[change], monkeypatch) == 2


def test_what_a_module_has_is_not_loaded_again(monkeypatch):
    assert loaded_by(lambda own, first: dict(reversed(first.items())), monkeypatch) == 1
    assert loaded_by(lambda own, first: own.eval() and None, monkeypatch) == 1


def test_names_must_be_the_modules():
    arrays = module_arrays(module())
    weight = arrays.pop("0.weight")
    with pytest.raises(ValueError, match=r"missing \['0.weight'\], unknown \['x'\]"):
        load_arrays(module(), {**arrays, "x": weight})


def test_shapes_must_be_the_modules():
    """A [1, 2] would otherwise be broadcast silently."""
    arrays = module_arrays(module())
    arrays["0.weight"] = arrays["0.weight"][:1]
    with pytest.raises(ValueError, match=r"0.weight: expected shape \(2, 3\), got \(1, 3\)"):
        load_arrays(module(), arrays)


def test_prefixes_undo_each_other_and_select():
    arrays = {"a": np.zeros(1), "b": np.ones(1)}
    both = {**with_prefix(arrays, "3/"), **with_prefix(arrays, "33/")}
    assert list(both) == ["3/a", "3/b", "33/a", "33/b"]
    assert list(under_prefix(both, "3/")) == ["a", "b"]
    assert under_prefix(both, "3/")["a"] is both["3/a"]


@pytest.mark.parametrize(
    ("share", "names"),
    [
        (Share(), ["encoder.w", "decoder.w", "encoders", "critic.encoder.w"]),
        (Share(("encoder.",)), ["encoder.w"]),
        (Share(("decoder.", "critic.")), ["decoder.w", "critic.encoder.w"]),
        (Share(("nothing.",)), []),
        (Share(()), []),
    ],
)
def test_a_share_selects_by_the_beginnings_of_names(share, names):
    arrays = {n: np.zeros(1) for n in ("encoder.w", "decoder.w", "encoders", "critic.encoder.w")}
    selected = share.select(arrays)
    assert list(selected) == names and all(selected[n] is arrays[n] for n in names)
    assert selected is not arrays


def test_sizes_and_non_finite_names():
    arrays = {
        "fine": np.zeros((2, 3), np.float32),
        "nan": np.array([np.nan], np.float32),
        "inf": np.array([1, -np.inf]),
        "whole": np.array([1], np.int64),
    }
    assert num_bytes(arrays.values()) == 24 + 4 + 16 + 8
    assert non_finite(arrays) == ["nan", "inf"]


def test_fingerprint_sees_values_names_shapes_and_types_but_not_order():
    a, b = np.arange(6, dtype=np.float32), np.zeros(2, np.float32)
    base = fingerprint({"a": a, "b": b})
    assert base == fingerprint({"b": b, "a": a}) == fingerprint({"a": a[::-1][::-1], "b": b.copy()})
    others = [
        {"a": a + 1, "b": b},
        {"a": a.reshape(2, 3), "b": b},
        {"a": a.astype(np.float64), "b": b},
        {"a": a, "c": b},
        {"a": a, "b": -b},
    ]
    assert len({base, *map(fingerprint, others)}) == 6


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("value", [0.5, 6e4, 9.9e5, 1.001e6, np.nan, -np.inf])
def test_one_number_that_is_too_large_is_found_among_many(kind: type, value: float) -> None:
    """Also where the sum of squares, which is looked at first, is large without it, or has no number."""
    with np.errstate(over="ignore"):
        number = np.array(value).astype(kind)
    bad = not abs(float(number)) <= 1e6
    for many in (np.zeros(1000, kind), np.full(1000, 6e4, kind)):
        many[416] = number
        for array in (many, many[::2], many.reshape(10, 100).T, many[:0]):
            assert bool(range_complaint({"w": array})) == (bad and array.size > 0)
