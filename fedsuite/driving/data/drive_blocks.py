"""Which frame of which recording goes to which silo, and whether it trains or tests.

Neighbouring frames of a recording show nearly the same picture, so frames are never drawn one by one. Recordings are cut
into silos at contiguous places, silos into blocks of about `block_frames`, and whole blocks are held out for testing,
evenly spread over every silo; each further fold holds out the block after each of those. Training frames nearer than
`gap_frames` to a test frame of the same recording, in whichever silo, are dropped: no test frame has a training neighbour.

Blocks end where a run (an episode, a segment) of a recording ends.

Label skew (optional): blocks are ranked by their mean angle into 10 classes of equal size; for each class the silos'
shares are drawn from a symmetric Dirichlet(a). Small a: most of a silo's blocks turn the same way. Blocks stay whole.

Symbols: n frames of a recording, N silos, S_b = (drive, start, stop) a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedsuite.driving.data.readers import Drive
from fedsuite.errors import InputError
from fedsuite.randomness import rng_for

UNUSED, TRAIN, TEST = 0, 1, 2
ANGLE_CLASSES = 10


@dataclass(frozen=True)
class SplitOptions:
    """num_silos: 0 = one per recording. dirichlet: a, 0 = off. Lengths in frames."""

    num_silos: int = 0
    dirichlet: float = 0.0
    test_share: float = 0.2
    seed: int = 0
    fold: int = 0
    block_frames: int = 20
    gap_frames: int = 5


@dataclass(frozen=True)
class Block:
    """Frames start..stop-1 of recording number `drive`."""

    drive: int
    start: int
    stop: int


@dataclass(frozen=True)
class Plan:
    """silo, role: per recording int [n]; role is UNUSED, TRAIN or TEST. Names of the silos in order."""

    names: tuple[str, ...]
    silo: tuple[np.ndarray, ...]
    role: tuple[np.ndarray, ...]

    def count(self, silo: int, role: int) -> int:
        """Frames of one silo in one role."""
        pairs = zip(self.silo, self.role, strict=True)
        return sum(int(((s == silo) & (r == role)).sum()) for s, r in pairs)


def plan_split(drives: Sequence[Drive], options: SplitOptions) -> Plan:
    """Assign every frame; InputError where a recording or a silo is too short.

    Recordings that are held out stand at the end: all their frames are for testing, and none of the others'.
    """
    if any(drive.held_out for drive in drives):
        return _given_tests(drives, options)
    for drive in drives:
        if len(drive) < 2 * options.block_frames:
            raise InputError(
                f"drive {drive.name}: {len(drive)} frames are fewer than the {2 * options.block_frames} of two blocks; "
                "record more, or remove this drive from data.dir"
            )
    names, silos = _silos(drives, options)
    assigned = tuple(np.full(len(d), -1) for d in drives)
    roles = tuple(np.full(len(d), TRAIN) for d in drives)
    for number, blocks in enumerate(silos):
        if len(blocks) < 2:
            raise InputError(
                f"data.num-silos: silo {names[number]} gets {len(blocks)} blocks of {options.block_frames} frames, 2 are "
                "needed; lower data.num-silos, raise data.dirichlet, or record more"
            )
        held_out = _held_out(len(blocks), options.test_share, options.fold)
        for position, block in enumerate(blocks):
            assigned[block.drive][block.start : block.stop] = number
            if position in held_out:
                roles[block.drive][block.start : block.stop] = TEST
    for role in roles:
        _open_gaps(role, options.gap_frames)
    plan = Plan(names, assigned, roles)
    for number, name in enumerate(names):
        if not plan.count(number, TRAIN):
            raise InputError(
                f"data.test-share: silo {name} keeps no training frame that is {options.gap_frames} frames away from every "
                "test frame; lower data.test-share or data.num-silos, or record more"
            )
    return plan


def _given_tests(drives: Sequence[Drive], options: SplitOptions) -> Plan:
    """The test frames are dealt to the silos in equal parts, so that all silos' test frames are each of them once."""
    train = [drive for drive in drives if not drive.held_out]
    names, silos = _silos(train, options)
    assigned = [np.full(len(d), -1) for d in drives]
    for number, blocks in enumerate(silos):
        for block in blocks:
            assigned[block.drive][block.start : block.stop] = number
    tests = assigned[len(train) :]
    total = sum(map(len, tests))
    dealt = np.repeat(
        np.arange(len(names)), [len(p) for p in np.array_split(range(total), len(names))]
    )
    ends = np.cumsum([len(t) for t in tests])
    for own, part in zip(tests, np.split(dealt, ends[:-1]), strict=True):
        own[:] = part
    roles = tuple(np.full(len(d), TEST if d.held_out else TRAIN) for d in drives)
    plan = Plan(names, tuple(assigned), roles)
    for number, name in enumerate(names):
        if not (plan.count(number, TRAIN) and plan.count(number, TEST)):
            raise InputError(
                f"data.test-split: silo {name} gets no training or no test frame of {total} in test/; lower data.num-silos "
                "or set data.test-split=blocks"
            )
    return plan


def _silos(
    drives: Sequence[Drive], options: SplitOptions
) -> tuple[tuple[str, ...], list[list[Block]]]:
    """Names, and every silo's blocks in time order."""
    lengths = [len(d) for d in drives]
    if not options.num_silos and not options.dirichlet:
        names = tuple(d.name for d in drives)
        whole = ([Block(i, 0, n)] for i, n in enumerate(lengths))
        return names, [_blocks(drives, pieces, options.block_frames) for pieces in whole]
    count = options.num_silos or len(drives)
    names = tuple(f"silo_{i:0{len(str(count - 1))}d}" for i in range(count))
    if not options.dirichlet:
        pieces = _equal_pieces(lengths, count)
        return names, [_blocks(drives, own, options.block_frames) for own in pieces]
    every = [Block(i, 0, n) for i, n in enumerate(lengths)]
    blocks = _blocks(drives, every, options.block_frames)
    return names, _skewed(drives, blocks, count, options)


def _equal_pieces(lengths: Sequence[int], count: int) -> list[list[Block]]:
    """The recordings, one after the other, cut at N - 1 equally spaced places; sizes differ by one at most."""
    ends = np.cumsum(lengths)
    cuts = [round(i * int(ends[-1]) / count) for i in range(count + 1)]
    pieces = []
    for low, high in pairwise(cuts):
        own = []
        for drive, (end, length) in enumerate(zip(ends.tolist(), lengths, strict=True)):
            start, stop = max(low, end - length), min(high, end)
            if start < stop:
                own.append(Block(drive, start - end + length, stop - end + length))
        pieces.append(own)
    return pieces


def _blocks(drives: Sequence[Drive], pieces: Sequence[Block], block_frames: int) -> list[Block]:
    """Every run of every piece cut into blocks of nearly equal length, about `block_frames`."""
    blocks = []
    for piece in (run for whole in pieces for run in _runs(drives[whole.drive], whole)):
        length = piece.stop - piece.start
        count = max(1, round(length / block_frames))
        cuts = [piece.start + round(i * length / count) for i in range(count + 1)]
        blocks += [Block(piece.drive, a, b) for a, b in pairwise(cuts)]
    return blocks


def _runs(drive: Drive, piece: Block) -> list[Block]:
    """The parts of a piece whose frames follow each other in time."""
    if drive.runs is None:
        return [piece]
    starts = np.flatnonzero(np.diff(drive.runs[piece.start : piece.stop])) + piece.start + 1
    return [Block(piece.drive, a, b) for a, b in pairwise([piece.start, *starts, piece.stop])]


def _skewed(
    drives: Sequence[Drive], blocks: list[Block], count: int, options: SplitOptions
) -> list[list[Block]]:
    """Blocks by silo: of every class of angle, shares drawn from Dirichlet(a)."""
    rng = rng_for(options.seed, "driving/dirichlet")
    means = [float(drives[b.drive].angles[b.start : b.stop].mean()) for b in blocks]
    ranked = np.argsort(means, kind="stable")
    members: list[list[int]] = [[] for _ in range(count)]
    for same_class in np.array_split(ranked, ANGLE_CLASSES):
        shuffled = rng.permutation(same_class)
        shares = rng.dirichlet(np.full(count, options.dirichlet))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(shuffled)).astype(int)
        for own, part in zip(members, np.split(shuffled, cuts), strict=True):
            own += part.tolist()
    _fill(members)
    return [[blocks[i] for i in sorted(own)] for own in members]


def _fill(members: list[list[int]]) -> None:
    """A draw may leave a silo without the two blocks that it needs; those come from the richest."""
    for own in members:
        while len(own) < 2:
            richest = max(members, key=len)
            if len(richest) <= 2:
                return
            own.append(richest.pop())


def _held_out(count: int, share: float, fold: int) -> frozenset[int]:
    """Positions of the test blocks among `count` >= 2: at least one, not all, evenly spread, `fold` places on."""
    tests = min(max(1, round(count * share)), count - 1)
    return frozenset((int((i + 0.5) * count / tests) + fold) % count for i in range(tests))


def _open_gaps(role: np.ndarray, gap_frames: int) -> None:
    """Drop training frames within `gap_frames` of a test frame; in place."""
    from scipy.ndimage import maximum_filter1d  # 7 MB, and converted drives do without

    near = maximum_filter1d(role == TEST, 2 * gap_frames + 1, mode="constant")
    role[near & (role == TRAIN)] = UNUSED
