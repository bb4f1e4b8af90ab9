"""The ledger's file, and the one accountant of all that it lists, against published and independent values."""

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from fedsuite.errors import InputError
from fedsuite.privacy.accounting import epsilon_of, epsilon_of_gaussian
from fedsuite.privacy.ledger import LEDGER, Ledger, Release, read, record

ONE = Release(round=1, unit="client", noise_multiplier=2.0, delta=1e-3, participants=12)
# (z, epsilon at delta 1e-3, at 1e-5) of 365 rounds; the same where 12 of 61 came by chance.
ALL = [(0.5, 868.73, 914.78), (1, 250.84, 273.29), (2, 79.05, 89.55), (4, 27.61, 32.94)]
BY_CHANCE = [(0.5, 240.07, 246.64), (1, 28.89, 33.62), (2, 8.73, 11.08), (4, 3.39, 4.57)]


@pytest.mark.parametrize(("z", "loose", "strict"), ALL)
def test_a_year_of_rounds(z: float, loose: float, strict: float) -> None:
    ledger = Ledger((replace(ONE, noise_multiplier=z),) * 365)
    assert ledger.epsilon() == ledger.epsilon(1e-3) == pytest.approx(loose, abs=0.0051)
    assert ledger.epsilon(1e-5) == pytest.approx(strict, abs=0.0051)
    finer = epsilon_of_gaussian(z, 365, 1e-3)  # its orders are closer together
    assert finer < ledger.epsilon() < 1.002 * finer


@pytest.mark.parametrize(("z", "loose", "strict"), BY_CHANCE)
def test_a_year_of_rounds_by_chance(z: float, loose: float, strict: float) -> None:
    ledger = Ledger((replace(ONE, noise_multiplier=z, sampling=12 / 61, count=365),))
    assert ledger.epsilon(1e-3) == pytest.approx(loose, abs=0.0051)
    assert ledger.epsilon(1e-5) == pytest.approx(strict, abs=0.0051)


@pytest.mark.parametrize(("z", "want"), [(1, 4.47), (2, 1.56), (4, 0.69), (8, 0.32)])
def test_dp_sgd_over_a_whole_training(z: float, want: float) -> None:
    assert epsilon_of({(z, 32 / 2806): 3600}, 1e-5) == pytest.approx(want, abs=0.0051)


def by_hand(z: float, q: float, count: int, delta: float) -> float:
    """The same from the binomial formula at whole orders alone (Mironov, Talwar, Zhang 2019, eq. 6)."""
    best = np.inf
    for a in range(2, 200):
        k = np.arange(a + 1)
        terms = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
        terms = terms + k * np.log(q) + (a - k) * np.log1p(-q) + k * (k - 1) / (2 * z * z)
        divergence = count * logsumexp(terms) / (a - 1)
        best = min(best, divergence + np.log1p(-1 / a) - np.log(delta * a) / (a - 1))
    return float(best)


@pytest.mark.parametrize(
    ("z", "q", "count"), [(1.0, 0.01, 2000), (2.0, 0.2, 100), (0.9, 0.05, 300)]
)
def test_sampled_releases_against_the_binomial_formula(z: float, q: float, count: int) -> None:
    """Ours has orders between whole ones too, so it is a little lower at most."""
    own, other = epsilon_of({(z, q): count}, 1e-5), by_hand(z, q, count, 1e-5)
    assert 0.97 * other < own <= other * (1 + 1e-9)


def test_unlike_releases_compose() -> None:
    both = epsilon_of({(1.0, 1.0): 3, (2.0, 1.0): 4}, 1e-5)
    assert both == pytest.approx(epsilon_of({((3 + 4 / 4) ** -0.5, 1.0): 1}, 1e-5), rel=1e-9)
    mixed = epsilon_of({(1.0, 0.01): 500, (2.0, 1.0): 1}, 1e-5)
    assert max(epsilon_of({(1.0, 0.01): 500}, 1e-5), epsilon_of({(2.0, 1.0): 1}, 1e-5)) < mixed
    assert epsilon_of({}, 1e-5) == epsilon_of({(1.0, 1.0): 0}, 1e-5) == 0.0
    for spent, delta in [({(0.0, 1.0): 1}, 1e-5), ({(1.0, 0.0): 1}, 1e-5), ({(1.0, 1.0): 1}, 0.0)]:
        with pytest.raises(ValueError, match="expected z > 0"):
            epsilon_of(spent, delta)


def test_single_releases_have_their_known_values() -> None:
    assert epsilon_of_gaussian(1, 1, 1e-5) == pytest.approx(4.7287096, abs=1e-6)
    assert epsilon_of_gaussian(2, 365, 1e-3) == pytest.approx(79.0040712, abs=1e-6)
    assert epsilon_of({(4.0, 1.0): 59}, 1e-3) < 8 < epsilon_of({(4.0, 1.0): 60}, 1e-3)


def test_lines_are_kept_in_order_and_read_again(tmp_path: Path) -> None:
    assert read(tmp_path) == Ledger() and Ledger().unit == ""
    assert Ledger().epsilon() == Ledger().delta == 0.0
    record(tmp_path, ONE)
    again = record(tmp_path, replace(ONE, round=2, sampling=0.25, count=9, noise="seeded"))
    assert read(tmp_path) == again and [r.round for r in again.releases] == [1, 2]
    assert (again.unit, again.delta, again.secret) == ("client", 1e-3, False)
    assert Ledger(again.releases[:1]).secret
    first = json.loads((tmp_path / LEDGER).read_text().splitlines()[0])
    assert first == LINE


def test_a_clients_ledger_is_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "client"
    record(folder, ONE, private=True)
    assert stat.S_IMODE((folder / LEDGER).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


ODD = [None, True, -1, 10**400, float("nan"), float("inf"), "", "x", [], {}]
LINE = {
    "round": 1, "mechanism": "gaussian", "unit": "client", "noise-multiplier": 2.0, "sampling": 1.0,
    "count": 1, "participants": 12, "delta": 1e-3, "noise": "secret",
}  # fmt: skip


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("key", LINE)
def test_a_line_with_another_value_is_no_ledger(tmp_path: Path, key: str, value: Any) -> None:
    """No count below 0, which would take releases back, and no noise that nobody could have drawn."""
    file = tmp_path / LEDGER
    file.write_text(json.dumps(LINE | {key: value}) + "\n")
    if type(value) is int and value > 0 and key in ("round", "count", "participants"):
        assert read(tmp_path)
        return
    with pytest.raises(InputError, match=r"ledger\.jsonl: not a ledger .* put it back"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"round": 1}', '"x"', "[" * 100_000])
def test_a_damaged_ledger_is_no_ledger(tmp_path: Path, text: str) -> None:
    """Nothing is released then: how much has been told nobody knows."""
    (tmp_path / LEDGER).write_text(text + "\n")
    for use in (lambda: read(tmp_path), lambda: record(tmp_path, ONE)):
        with pytest.raises(InputError, match=r"ledger\.jsonl: not a ledger .* put it back"):
            use()
    assert (tmp_path / LEDGER).read_text() == text + "\n"
