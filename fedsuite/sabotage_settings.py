"""Section `sabotage` of a run's settings: who is hostile, in simulation only, and how (fedsuite/sabotage.py)."""

import re
from dataclasses import dataclass

from fedsuite.config import setting
from fedsuite.errors import InputError

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

    def check(self, in_turn: bool = False, real: bool = False) -> None:
        """InputError where clients train in turn but many must be known, and where they are no simulation."""
        if self.partitions and in_turn and self.attack in COLLUDING:
            raise InputError(
                f"sabotage.attack: {self.attack} has to know what others send, but clients train in turn; choose another"
            )
        if self.partitions and real:
            raise InputError(
                "sabotage.clients: for simulations only, but this client's node-config says who it is; leave it empty"
            )

    def flips_labels(self, partition: int) -> bool:
        """Whether this client trains on false labels."""
        return self.attack == "label-flip" and partition in self.partitions
