"""Section `sabotage` of a run's settings: who is hostile, in simulation only, and how (attacks.py beside this file)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo
from fedsuite.settings.config import setting

COLLUDING = ("alie", "ipm")  # need to know the honest changes of their round


@dataclass(frozen=True)
class SabotageSettings:
    """Section `sabotage` of a run's settings."""

    clients: str = setting(
        "", "partitions of hostile clients, such as 0 or 2,5; empty = none; in simulation only"
    )
    attack: str = setting(
        "sign-flip", "what hostile clients do",
        choices=("sign-flip", "scale", "gaussian", "alie", "ipm", "weight-lie", "label-flip"),
    )  # fmt: skip
    scale: float = setting(0.0, "c, the attack's strength; 0 = its own", ge=0)
    from_round: int = setting(1, "first round in which they are hostile", ge=1)

    @property
    def partitions(self) -> tuple[int, ...]:
        """Who is hostile; InputError for what is no list of whole numbers."""
        if self.clients and not re.fullmatch(r"\d{1,9}(,\d{1,9})*", self.clients):
            raise InputError(
                f"sabotage.clients: expected partitions such as 0 or 2,5, got {self.clients!r}"
            )
        return tuple(sorted({int(p) for p in self.clients.split(",") if p}))

    def check(self, in_turn: bool = False, real: bool = False, rounds: int | None = None) -> None:
        """InputError where clients train in turn but many must be known, where they are no simulation, and where the run's
        `rounds` end before anybody is hostile.
        """
        if self.partitions and rounds is not None and self.from_round > max(rounds, 1):
            raise InputError(
                f"sabotage.from-round: {self.from_round}, but the run has {rounds} rounds, so nobody would ever be hostile; "
                "lower it, or raise num-rounds"
            )
        if self.partitions and in_turn and self.attack in COLLUDING:
            raise InputError(
                f"sabotage.attack: {self.attack} has to know what others send, but clients train in turn; choose another"
            )
        if self.partitions and real:
            raise InputError(
                "sabotage.clients: for simulations only, but this client's node-config says who it is; leave it empty"
            )

    def check_among(self, clients: Sequence[ClientInfo]) -> None:
        """InputError where the run has no such clients, where one has nothing to train on, and where none is honest."""
        if unknown := set(self.partitions) - {c.partition for c in clients}:
            raise InputError(
                f"sabotage.clients: no partition {min(unknown)} in this run; expected 0 .. {len(clients) - 1}"
            )
        training = {c.partition: c.name for c in clients if c.num_examples}
        for c in clients:
            if c.partition in self.partitions and c.partition not in training:
                raise InputError(
                    f"sabotage.clients: partition {c.partition} ({c.name}) has nothing to train on, so it would never send "
                    "anything; choose clients that train"
                )
        if training and training.keys() <= set(self.partitions):
            raise InputError(
                f"sabotage.clients: all {len(training)} clients that train are hostile, so there is nothing to withstand "
                "them for; leave one out"
            )

    def flips_labels(self, partition: int) -> bool:
        """Whether this client trains on false labels."""
        return self.attack == "label-flip" and partition in self.partitions
