"""Secure sums against a program of its own: other ciphers, another curve, another way to share a secret."""

import hashlib
import hmac
import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from Crypto.Cipher import AES
from scipy.stats import chisquare

from fedsuite.privacy.identity import (
    ANNOUNCED,
    announced,
    drawn_key,
    fingerprint_of,
    key_of_number,
    number_of,
    read_announced,
)  # fmt: skip
from fedsuite.privacy.masked_vectors import WORD, Levels, mask
from fedsuite.privacy.secure_sum import (
    SEALED_BYTES,
    Listed,
    Secrets,
    masked,
    opened_shares,
    public_of,
    sealed_shares,
    unmasked,
)  # fmt: skip
from fedsuite.privacy.shamir import PRIME, SHARE_BYTES, combine, split

LENGTH = 4096


# --- a program of its own -----------------------------------------------------------------------


def own_hkdf(secret: bytes, info: bytes) -> bytes:
    """RFC 5869, one block of SHA-256, no salt."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\1", "sha256")


def own_words(secret: bytes, info: bytes, length: int) -> np.ndarray:
    cipher = AES.new(own_hkdf(secret, info), AES.MODE_CTR, nonce=b"", initial_value=0)
    return np.frombuffer(cipher.encrypt(bytes(4 * length)), "<u4")


def own_agreement(secret: bytes, public: bytes) -> bytes:
    """X25519 by the ladder of RFC 7748, section 5."""
    p, k = 2**255 - 19, bytearray(secret)
    k[0], k[31] = k[0] & 248, (k[31] & 127) | 64
    scalar, u = int.from_bytes(k, "little"), int.from_bytes(public, "little") & (2**255 - 1)
    x2, z2, x3, z3 = 1, 0, u, 1
    for t in reversed(range(255)):
        bit = scalar >> t & 1
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % p, b * b % p, d * a % p, c * b % p
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % p, u * (da - cb) ** 2 % p
        x2, z2 = aa * bb % p, e * (aa + 121665 * e) % p
        if bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, -1, p) % p).to_bytes(32, "little")


def own_digest(listed: Listed, members: Sequence[int]) -> bytes:
    lines = [f"fedsuite secure sum 1|{listed.round}|{listed.threshold}"]
    for p in sorted(listed.keys):
        k = listed.keys[p]
        lines.append("|".join([str(p), str(listed.counts[p]), k.seal.hex(), k.mask.hex()]))
    first = hashlib.sha256("\n".join(lines).encode()).digest()
    return hashlib.sha256(first + ",".join(map(str, members)).encode()).digest()


def own_masked(
    own: int, drawn: Secrets, listed: Listed, members: Sequence[int], vector: np.ndarray
) -> np.ndarray:
    """y_u as the paper writes it, in Python's integers."""
    digest = own_digest(listed, members)
    total = [int(x) for x in vector]
    streams = [(1, own_words(drawn.seed, b"self|" + digest + b"|%d|%d" % (own, own), len(total)))]
    for v in members:
        if v != own:
            agreed = own_agreement(drawn.mask, listed.keys[v].mask)
            info = b"pair|" + digest + b"|%d|%d" % (min(own, v), max(own, v))
            streams.append((1 if own < v else -1, own_words(agreed, info, len(total))))
    for sign, words in streams:
        total = [(x + sign * int(w)) % 2**32 for x, w in zip(total, words, strict=True)]
    return np.array(total, WORD)


def own_secret(shares: dict[int, bytes]) -> int:
    """f(0) by solving for all coefficients (Gauss-Jordan modulo p)."""
    n = len(shares)
    rows = [
        [pow(x, k, PRIME) for k in range(n)] + [int.from_bytes(s, "big")] for x, s in shares.items()
    ]
    for at in range(n):
        pivot = next(i for i in range(at, n) if rows[i][at])
        rows[at], rows[pivot] = rows[pivot], rows[at]
        inverse = pow(rows[at][at], -1, PRIME)
        rows[at] = [x * inverse % PRIME for x in rows[at]]
        for i in range(n):
            if i != at:
                factor = rows[i][at]
                rows[i] = [(x - factor * y) % PRIME for x, y in zip(rows[i], rows[at], strict=True)]
    return rows[0][n]


# --- sharing --------------------------------------------------------------------------------------


def test_any_threshold_of_the_shares_gives_the_secret_back() -> None:
    secret = bytes(range(32))
    shares = split(secret, 3, [1, 2, 5, 8, 9])
    assert {len(s) for s in shares.values()} == {SHARE_BYTES}
    for chosen in itertools.combinations(shares, 3):
        some = {x: shares[x] for x in chosen}
        assert combine(some, 32) == secret == own_secret(some).to_bytes(32, "big")
    assert combine(shares, 32) == secret


def test_one_share_is_enough_where_one_is_asked_for() -> None:
    secret = bytes(range(64))
    for place, share in split(secret, 1, [1, 7]).items():
        assert combine({place: share}, 64) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """Two of three: for any other secret there is a third share that makes them its own."""
    shares = split(bytes(32), 3, [1, 2, 3])
    two = {x: shares[x] for x in (1, 2)}
    assert own_secret(two) != 0
    s1, s2 = (int.from_bytes(shares[x], "big") for x in (1, 2))
    for wanted in (0, 1, 12345):  # f(0) = 3 f(1) - 3 f(2) + f(3)
        third = ((wanted - 3 * s1 + 3 * s2) % PRIME).to_bytes(SHARE_BYTES, "big")
        assert own_secret({**two, 3: third}) == wanted


def test_shares_of_two_sharings_do_not_combine() -> None:
    one, other = (split(bytes([7] * 32), 2, [1, 2]) for _ in range(2))
    assert one != other
    with pytest.raises(ValueError, match="do not belong together"):
        combine({1: one[1], 2: other[2]}, 32)


@pytest.mark.parametrize(("threshold", "places"), [(0, [1]), (3, [1, 2]), (1, [0, 1]), (2, [1, 1])])
def test_sharings_that_would_not_work(threshold: int, places: list[int]) -> None:
    with pytest.raises(ValueError, match="distinct places"):
        split(bytes(32), threshold, places)


# --- levels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [3, 4, 12, 61, 1023, 1024])
def test_no_sum_of_levels_wraps_and_the_error_is_bounded(members: int) -> None:
    levels, rng = Levels(0.1, members), np.random.default_rng(members)
    assert members * levels.steps < 2**32 <= 4 * members * levels.steps
    weights = rng.uniform(0.1, 1, members)
    changes = rng.uniform(-0.1, 0.1, (members, 50))
    total = sum(
        levels.rounded(d, w).astype(np.uint64) for d, w in zip(changes, weights, strict=True)
    )
    mean, clipped = levels.mean(np.asarray(total).astype(WORD), weights)
    bound = 0.1 * members / (levels.steps * weights.sum())
    assert clipped == 0 and abs(mean - weights @ changes / weights.sum()).max() <= bound * (
        1 + 1e-6
    )


def test_the_bound_of_the_specification() -> None:
    """c = .1, T = 2^22, equal counts: 2.4e-8."""
    assert Levels(0.1, 1023).steps == 2**22 and pytest.approx(2.4e-8, rel=0.01) == 0.1 / 2**22


def test_large_numbers_are_clipped_and_counted() -> None:
    levels = Levels(1.0, 3)
    total = sum(levels.rounded(np.array([0.5, 2.0, -7.0]), 1.0) for _ in range(3))
    mean, clipped = levels.mean(np.asarray(total, WORD), np.ones(3))
    assert mean == pytest.approx([0.5, 1, -1], abs=1e-8) and clipped == 6


def test_what_is_no_sum_of_levels_is_told() -> None:
    words = mask(b"s" * 32, b"noise", 100)
    with pytest.raises(ValueError, match="the largest that such a sum can have"):
        Levels(1.0, 4).mean(words, np.ones(4))
    levels = Levels(1.0, 3)
    most = np.array([3 * levels.steps, 0, 6], WORD)  # every number of three members is clipped
    mean, clipped = levels.mean(most, np.ones(3))
    assert (mean.tolist(), clipped) == ([1, -1], 6)
    for place in (0, 2):
        above = most + (np.arange(3) == place).astype(WORD)
        with pytest.raises(ValueError, match="the largest that such a sum can have"):
            levels.mean(above, np.ones(3))


# --- the four stages ------------------------------------------------------------------------------


class Group:
    """N members, all of whom have sent shares."""

    def __init__(self, many: int, threshold: int) -> None:
        self.drawn = {u: Secrets.drawn() for u in range(many)}
        public = {u: own.public for u, own in self.drawn.items()}
        self.listed = Listed(4, threshold, public, dict.fromkeys(public, 10))
        self.sealed = {u: sealed_shares(u, own, self.listed) for u, own in self.drawn.items()}
        rng = np.random.default_rng(0)
        self.vectors = {u: rng.integers(0, 1000, LENGTH).astype(WORD) for u in self.drawn}

    def masked(self, own: int, members: Sequence[int]) -> np.ndarray:
        return masked(own, self.drawn[own], self.listed, members, self.vectors[own])

    def opened(self, own: int, members: Sequence[int], alive: Sequence[int]) -> dict[int, bytes]:
        boxes = {v: self.sealed[v][own] for v in members}
        return opened_shares(own, self.drawn[own], self.listed, boxes, alive)


@pytest.mark.parametrize(
    ("members", "alive", "answer"),
    [
        ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
        ([0, 1, 2, 3, 4], [0, 2, 4], [0, 2, 4]),
        ([0, 1, 3, 4], [0, 1, 3, 4], [1, 3, 4]),
        ([0, 1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 4]),
    ],
)
def test_the_sum_is_that_of_those_alive(
    members: list[int], alive: list[int], answer: list[int]
) -> None:
    group = Group(5, 3)
    sent = {u: group.masked(u, members) for u in alive}
    for u in alive:
        own = own_masked(u, group.drawn[u], group.listed, members, group.vectors[u])
        assert np.array_equal(sent[u], own)
    total = np.sum([*sent.values()], axis=0, dtype=WORD)
    shares = {u: group.opened(u, members, alive) for u in answer}
    found = unmasked(group.listed, members, total, alive, shares)
    assert np.array_equal(found, np.sum([group.vectors[u] for u in alive], axis=0, dtype=WORD))


def test_a_masked_vector_is_uniform_and_another_one_each_time() -> None:
    """The bytes of one member's vector of small numbers: chi-square over 256 values, at the level 1e-9."""
    one, other = (Group(3, 2).masked(1, [0, 1, 2]) for _ in range(2))
    for sent in (one, other, one - other):
        counts = np.bincount(sent.view(np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-9
    plain = np.bincount(Group(3, 2).vectors[1].view(np.uint8), minlength=256)
    assert chisquare(plain).pvalue < 1e-30  # the test can fail


def test_a_sum_with_two_lists_is_noise() -> None:
    """A server that tells member 2 of other members than the rest learns nothing."""
    group = Group(4, 3)
    lists = {0: [0, 1, 2, 3], 1: [0, 1, 2, 3], 3: [0, 1, 2, 3], 2: [1, 2, 3]}
    total = np.sum([group.masked(u, lists[u]) for u in range(4)], axis=0, dtype=WORD)
    shares = {u: group.opened(u, [0, 1, 2, 3], [0, 1, 2, 3]) for u in range(4)}
    found = unmasked(group.listed, [0, 1, 2, 3], total, [0, 1, 2, 3], shares)
    assert chisquare(np.bincount(found.view(np.uint8), minlength=256)).pvalue > 1e-9


def test_shares_open_for_whom_they_are_and_in_this_sum_alone() -> None:
    group, other = Group(3, 2), Group(3, 2)
    assert {len(box) for box in group.sealed[0].values()} == {SEALED_BYTES}
    with pytest.raises(ValueError, match="shares of member 0 that are not for this sum"):
        opened_shares(2, group.drawn[2], group.listed, {0: group.sealed[0][1]}, [0])
    with pytest.raises(ValueError, match="not for this sum"):
        opened_shares(1, group.drawn[1], group.listed, {0: other.sealed[0][1]}, [0])
    moved = Listed(5, 2, group.listed.keys, group.listed.counts)
    with pytest.raises(ValueError, match="not for this sum"):
        opened_shares(1, group.drawn[1], moved, {0: group.sealed[0][1]}, [0])


def test_false_shares_of_a_key_are_told() -> None:
    group = Group(3, 2)
    members, alive = [0, 1, 2], [0, 1]
    total = np.sum([group.masked(u, members) for u in alive], axis=0, dtype=WORD)
    shares = {u: group.opened(u, members, alive) for u in alive}
    shares[1][2] = shares[1][0]
    with pytest.raises(ValueError, match=r"member 2|belong together"):
        unmasked(group.listed, members, total, alive, shares)


@pytest.mark.parametrize(
    ("many", "threshold", "own", "words"),
    [
        (2, 2, 0, "a sum of 2 members"),
        (4, 2, 0, "threshold 2 of 4"),
        (4, 5, 0, "threshold 5 of 4"),
        (3, 2, 3, "without this one"),
        (3, 2, 0, ""),
    ],
)
def test_lists_that_hide_nobody(many: int, threshold: int, own: int, words: str) -> None:
    keys = {u: Secrets.drawn().public for u in range(many)}
    complaint = Listed(1, threshold, keys, dict.fromkeys(keys, 1)).complaint(own)
    assert complaint.startswith(words) if not words else words in complaint
    assert bool(complaint) == bool(words)


def test_a_key_twice() -> None:
    keys = {u: Secrets.drawn().public for u in range(3)} | {3: Secrets.drawn().public}
    keys[3] = keys[1]
    assert Listed(1, 3, keys, dict.fromkeys(keys, 1)).complaint(0) == "the same key twice"


# --- who says so ----------------------------------------------------------------------------------


def test_an_announcement_is_of_one_member_and_one_round() -> None:
    key, public = drawn_key(), Secrets.drawn().public
    said = announced(key, 3, 2, public)
    assert len(said) == ANNOUNCED
    assert read_announced(said, 3, 2) == (fingerprint_of(key.public_key()), public)
    assert number_of(key_of_number(number_of(key))) == number_of(key)
    changed = said[:100] + bytes([said[100] ^ 1]) + said[101:]
    for data, round, member in ((said, 4, 2), (said, 3, 1), (changed, 3, 2), (said[:-1], 3, 2)):
        with pytest.raises(ValueError, match=r"signature|bytes"):
            read_announced(data, round, member)


def test_public_keys_are_those_of_the_curve() -> None:
    """RFC 7748, 6.1: the base point is 9."""
    secret = bytes(range(32))
    assert public_of(secret) == own_agreement(secret, (9).to_bytes(32, "little"))
