"""What a member of secure sums keeps on its own disk: the sum under way, and who its peers are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.privacy.identity import Key, announced, drawn_key, key_of_number, number_of
from fedsuite.privacy.secure_sum import Listed, PublicKeys, Secrets
from fedsuite.privacy.sum_terms import KEYS, MASKED, SHARES
from fedsuite.runs.versions import Versions

SUM, PEERS = "secure-sum", "secure-sum-peers"
Refuse = Callable[[object, object], Any]


@dataclass(frozen=True)
class Stage:
    """How far a round's sum has come with this member: the last stage that it answered, and what it needs for the next."""

    round: int
    name: str
    arrays: Arrays
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def begun(cls, number: int) -> "Stage":
        """With new secrets."""
        drawn = Secrets.drawn()
        rows = [np.frombuffer(own, np.uint8) for own in (drawn.seal, drawn.mask, drawn.seed)]
        return cls(number, KEYS, {"secrets": np.stack(rows)})

    def with_list(self, listed: Listed, own_box: np.ndarray) -> "Stage":
        members = sorted(listed.keys)
        keys = [listed.keys[p].seal + listed.keys[p].mask for p in members]
        arrays = {
            "members": np.array(members),
            "counts": np.array([listed.counts[p] for p in members]),
            "keys": np.stack([np.frombuffer(own, np.uint8) for own in keys]),
            "own-box": own_box,
        }
        about = {"threshold": listed.threshold}
        return replace(self, name=SHARES, arrays={**self.arrays, **arrays}, about=about)

    def with_vector(
        self, members: Sequence[int], vector: np.ndarray, examples: int, metrics: Mapping[str, Any]
    ) -> "Stage":
        arrays = {**self.arrays, "fixed": np.array(members), "masked": vector}
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in metrics.items()}
        about = {**self.about, "examples": examples, "metrics": plain}
        return replace(self, name=MASKED, arrays=arrays, about=about)

    @property
    def listed(self) -> Listed:
        members = [int(p) for p in self.arrays["members"]]
        half = self.arrays["keys"].shape[1] // 2
        rows = [(row[:half].tobytes(), row[half:].tobytes()) for row in self.arrays["keys"]]
        keys = {p: PublicKeys(*pair) for p, pair in zip(members, rows, strict=True)}
        counts = (int(n) for n in self.arrays["counts"])
        return Listed(
            self.round, self.about["threshold"], keys, dict(zip(members, counts, strict=True))
        )

    @property
    def members(self) -> list[int]:
        """U2, who masks with whom."""
        return [int(p) for p in self.arrays["fixed"]]

    @property
    def own_box(self) -> bytes:
        return self.arrays["own-box"].tobytes()

    @property
    def vector(self) -> np.ndarray:
        return self.arrays["masked"]

    @property
    def examples(self) -> int:
        return int(self.about["examples"])

    @property
    def metrics(self) -> dict[str, Any]:
        return dict(self.about["metrics"])


def secrets_of(at: Stage) -> Secrets:
    return Secrets(*(row.tobytes() for row in at.arrays["secrets"]))


class SumState:
    """The sum under way, if there is one, in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._kept = Versions(folder / SUM, name)

    def read(self) -> Stage | None:
        """The newest."""
        found = self._kept.rounds()
        if not found or (stored := self._kept.load(found[-1] + 1)) is None:
            return None
        arrays, about = stored
        return Stage(found[-1], about.pop("stage"), arrays, about)

    def write(self, at: Stage) -> Stage:
        """In the place of what was there."""
        if any(number != at.round for number in self._kept.rounds()):
            self._kept.clear()
        self._kept.save(at.round, at.arrays, {**at.about, "stage": at.name})
        return at

    def clear(self) -> None:
        self._kept.clear()


class Peers:
    """Who this member and its peers are. own_key: of a node that has one; pinned: then by member what its roster says."""

    def __init__(
        self,
        folder: Path,
        name: str,
        own_key: Key | None = None,
        pinned: Mapping[int, str] | None = None,
    ) -> None:
        self._kept, self.pinned = Versions(folder / PEERS, name), pinned
        stored = self._kept.load(1)
        about = stored[1] if stored else {}
        self.unmasked = int(about.get("unmasked", 0))
        self._known = {int(p): str(who) for p, who in about.get("known", [])}
        if own_key is None:
            own_key = key_of_number(stored[0]["key"].tobytes()) if stored else drawn_key()
        self.key, self._stored = own_key, stored is not None

    def introduced(self, number: int, member: int, public: PublicKeys) -> bytes:
        """What they are told of this member's keys of a round."""
        return announced(self.identity(), number, member, public)

    def identity(self) -> Key:
        """The own key, which stays the same from here on."""
        if not self._stored:
            self._save()
        return self.key

    def meet(self, told: Mapping[int, str], refuse: Refuse) -> None:
        """Hold every member to who it is known to be; who is new and not pinned is known from then on."""
        if self.pinned is not None:
            for p, who in told.items():
                if who != self.pinned.get(p):
                    refuse(
                        f"member {p} as {who}", self.pinned.get(p) or "a key on this node's roster"
                    )
            return
        for p, who in told.items():
            if who != self._known.setdefault(p, who):
                refuse(f"member {p} as {who}", f"{self._known[p]}, as before in this run")
        self._save()

    def unmask(self, number: int) -> None:
        """Sums up to this round are out."""
        self.unmasked = number
        self._save()

    def go_back(self, number: int) -> None:
        """The run goes on from this round."""
        if self.unmasked > number:
            self.unmask(number)

    def _save(self) -> None:
        own = np.frombuffer(number_of(self.key), np.uint8) if self.pinned is None else np.zeros(0)
        about = {"known": sorted(self._known.items()), "unmasked": self.unmasked}
        self._kept.save(0, {"key": own}, about)
        self._stored = True
