"""What an attack on a run found: one row of its audit.

An attack is tried as it is on the run (`value`), and beside it where it must succeed (`control`): a failure of an attack
that fails everywhere shows nothing. `chance` is what a guesser reaches who sees nothing of the run.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One number that one attack reached on one run.

    attack: its name, such as "words"; attacker: who is in a position for it, "server", "neighbour", "party" or "anybody with
    the model"; target: what it is after, in words; measure: what the numbers are, such as "precision" or "TPR at 1 % FPR".
    value, low, high: what was reached, with its 95 % interval (equal where there is none); control: what the same attack
    reached where it must succeed, and least: what the control has to reach there for the finding to count; chance: a
    guesser's. n: what the value is a share or a mean of. note: what a reader has to know beside it.
    """

    attack: str
    attacker: str
    target: str
    measure: str
    value: float
    chance: float
    control: float
    least: float
    n: int
    low: float = float("nan")
    high: float = float("nan")
    note: str = ""

    @property
    def counts(self) -> bool:
        """Whether the control succeeded: no defence counts while it fails."""
        return self.control >= self.least
