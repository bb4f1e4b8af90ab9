"""What a server of secure sums may say to a member, and what a member answers with one line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from fedsuite.arrays import Arrays
from fedsuite.errors import one_line
from fedsuite.messages.instructions import Above, Allowed, Instruction, OneOf, Whole, refused, task
from fedsuite.privacy.identity import read_announced
from fedsuite.privacy.secure_sum import Listed, PublicKeys
from fedsuite.privacy.sum_terms import (
    CLIP,
    MASKED,
    SHARES,
    STAGE,
    STAGES,
    UNMASK,
    numbers_in,
    numbers_text,
)  # fmt: skip

LONGEST = 8  # digits of a member's number


@dataclass(frozen=True)
class Numbers:
    """Members of a sum, ascending, with commas between them; none is none."""

    most: int

    def holds(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        parts = value.split(",") if value else []
        if not all(part.isdecimal() and len(part) <= LONGEST for part in parts):
            return False
        found = numbers_in(value)
        inside = all(number < self.most for number in found)
        return inside and value == numbers_text([*set(found)])

    def __str__(self) -> str:
        return f"ascending numbers below {self.most}, with commas between them"


def instruction_of(
    stage: object, inner: Instruction, rounds: int, members: int, adapts: bool
) -> Instruction:
    """A message of training, which is one of the stages; inner: what the client itself is told; adapts: it is told C."""
    fixed: dict[str, Allowed] = {STAGE: OneOf((stage,) if stage in STAGES else STAGES)}
    every = Numbers(members)
    if stage == MASKED:
        clip: dict[str, Allowed] = {CLIP: Above(0)} if adapts else {}
        return Instruction({**inner.needed, **fixed, "members": every, **clip}, inner.optional)
    if stage == SHARES:
        fixed["threshold"] = Whole(2, members)
    if stage == UNMASK:
        fixed |= {"alive": every, "dead": every}
    return task(rounds, fixed)


def read_list(
    arrays: Arrays, number: int, threshold: int, own: int, most: int
) -> tuple[Listed, dict[int, str]]:
    """The members of a round's sum, and by member who it is; own: who reads it, of `most` on the roster."""
    members = [int(p) for p in table(arrays, "members", (-1,), own)]
    counts = [int(n) for n in table(arrays, "counts", (len(members),), own)]
    rows = table(arrays, "keys", (len(members), -1), own)
    if members != sorted(set(members)) or not all(0 <= p < most for p in members):
        refuse(own, "members", members, f"ascending numbers below {most}, none twice")
    if any(n < 0 for n in counts):
        refuse(own, "counts", counts, "no number below 0")
    keys, known = dict[int, PublicKeys](), dict[int, str]()
    for p, row in zip(members, rows, strict=True):
        try:
            known[p], keys[p] = read_announced(row.tobytes(), number, p)
        except ValueError as error:
            refuse(own, "keys", f"of member {p}: {error}", "keys signed by who sent them")
    listed = Listed(number, threshold, keys, dict(zip(members, counts, strict=True)))
    if complaint := listed.complaint(own):
        refuse(own, "members", complaint, "a list that hides single members")
    return listed, known


def table(arrays: Arrays, name: str, shape: tuple[int, ...], own: int) -> np.ndarray:
    """An array of a message, of whole numbers; a shape's -1 stands for any length."""
    found = arrays.get(name)
    if found is None or found.dtype.kind not in "iu" or not _fits(found.shape, shape):
        here = "missing" if found is None else f"{found.dtype} {found.shape}"
        refuse(own, name, here, f"whole numbers {shape}")
    return found


def refuse(own: int, name: str, found: object, expected: object) -> NoReturn:
    """InputError of the member `own`."""
    raise refused(f"secure sum, member {own}", name, one_line(str(found), 200), expected)


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(
        w in (-1, n) for n, w in zip(shape, wanted, strict=True)
    )
