"""The ledger of a run: every release of something noised, written down before it leaves.

<run>/ledger.jsonl, on the server or in a client's private folder, has one line for each release, in the order in which they
were made:

  round             in which it was made
  mechanism         "gaussian"
  unit              whose presence it hides: "client" or "example"
  noise-multiplier  z, standard deviation of the noise over the sensitivity
  sampling          q, the chance with which each unit took part (Poisson), unknown to others; 1 = nothing is gained from it
  count             equal releases that the line stands for: the steps of a visit
  participants      units that took part, where that is no secret; 0 = it is one
  delta, noise      as set: the delta at which the run states epsilon; "secret" or "seeded"

A line is never taken back. A round that is played again after a crash has a second one, and counts twice: somebody may have
seen the first.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from fedsuite.averaging.privacy_settings import CLIENT, EXAMPLE, SECRET, SEEDED
from fedsuite.errors import InputError, one_line
from fedsuite.privacy.accounting import epsilon_of
from fedsuite.storage.files import make_private, telling, write_atomically

LEDGER = "ledger.jsonl"
_CURE = "put it back from a copy; without one nobody can say how much the run has told"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A line."""

    round: int
    unit: str
    noise_multiplier: float
    delta: float
    sampling: float = 1.0
    count: int = 1
    participants: int = 0
    noise: str = SECRET
    mechanism: str = "gaussian"


_KEYS = {f.name.replace("_", "-"): f for f in fields(Release)}


@dataclass(frozen=True)
class Ledger:
    """What has been released so far."""

    releases: tuple[Release, ...] = ()

    @property
    def unit(self) -> str:
        """Whose presence the releases hide; "" where there are none."""
        return self.releases[0].unit if self.releases else ""

    @property
    def delta(self) -> float:
        """The delta at which the run states epsilon; 0 where there are no releases."""
        return self.releases[-1].delta if self.releases else 0.0

    @property
    def secret(self) -> bool:
        """Whether nobody can know the noise of any of them."""
        return all(release.noise == SECRET for release in self.releases)

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon of all releases together at `delta`, by default at the run's own."""
        spent: Counter[tuple[float, float]] = Counter()
        for release in self.releases:
            spent[release.noise_multiplier, release.sampling] += release.count
        return epsilon_of(spent, self.delta if delta is None else delta) if spent else 0.0

    def and_then(self, release: Release) -> "Ledger":
        """The ledger with another line."""
        return Ledger((*self.releases, release))


def read(folder: Path) -> Ledger:
    """The ledger in `folder`, without lines where there is none yet; InputError where it is damaged."""
    file = folder / LEDGER
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return Ledger(tuple(_release(json.loads(line)) for line in lines))
    except FileNotFoundError:
        return Ledger()
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = one_line(str(error), 100)
        raise InputError(f"{file}: not a ledger of releases ({why}); {_CURE}") from None


def record(folder: Path, release: Release, private: bool = False) -> Ledger:
    """The ledger with this line, which is on disk when the function returns; only then may the release leave.

    private: a client's own, in a folder that nobody else can read.
    """
    if private:
        with telling(folder):
            make_private(folder)
    ledger = read(folder).and_then(release)
    text = "".join(f"{json.dumps(_line(one))}\n" for one in ledger.releases)
    write_atomically(folder / LEDGER, text.encode(), private=private)
    return ledger


def _line(release: Release) -> dict[str, Any]:
    return {key: getattr(release, field.name) for key, field in _KEYS.items()}


def _release(line: dict[str, Any]) -> Release:
    if line.keys() != _KEYS.keys():
        raise ValueError(f"expected {', '.join(_KEYS)} in every line")
    found = Release(**{field.name: line[key] for key, field in _KEYS.items()})
    counts = found.round, found.count, found.participants
    rates = found.noise_multiplier, found.sampling, found.delta
    if not all(type(n) is int and n >= 0 for n in counts):
        raise ValueError("round, count and participants must be whole numbers")
    if not all(type(n) in (int, float) and n > 0 and math.isfinite(n) for n in rates):
        raise ValueError("noise-multiplier, sampling and delta must be numbers above 0")
    if found.sampling > 1 or found.delta >= 1:
        raise ValueError("sampling must be at most 1, delta below 1")
    told = found.mechanism, found.unit, found.noise
    if told not in [("gaussian", u, n) for u in (CLIENT, EXAMPLE) for n in (SECRET, SEEDED)]:
        raise ValueError("expected gaussian, client or example, and secret or seeded")
    return found
