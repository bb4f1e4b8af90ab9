"""Sums of vectors of which nobody sees a single one: secure aggregation with double masking (Bonawitz et al. 2017).

K. Bonawitz et al., Practical Secure Aggregation for Privacy-Preserving Machine Learning, CCS 2017 (1611.04482). Four
exchanges between a server, which relays, and members u of a sum; all secrets are drawn from the operating system:

  keys     u sends two public keys of X25519, c_u for shares and s_u for masks, under the signature of who it is
  shares   u gets everybody's keys, splits its seed b_u and the secret key of s_u by Shamir, t of N, and sends each other
           member its two shares, encrypted with AES-GCM under the agreement of c_u and c_v
  masked   u gets the list U2 of those who sent shares, and sends, modulo 2^32,
           y_u = x_u + PRG(b_u) + sum_{u < v in U2} PRG(s_uv) - sum_{v < u in U2} PRG(s_uv)
  unmask   u gets who has answered (alive) and who has not (dead), and gives its share of b_v of each one alive, of the
           secret key of s_v of each one dead, never both; the server takes off the masks, and has the sum over those alive

s_uv is the agreement of s_u and s_v. Masks depend on the whole list of members with all keys, on t and on U2: where a server
shows two members different lists, their masks do not cancel, and what it gets is noise. With t > N / 2 it cannot have both
shares of anybody by asking one half for the one and the other half for the other.
"""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedsuite.privacy.masked_vectors import WORD, derived, mask
from fedsuite.privacy.shamir import SHARE_BYTES, combine, split

FEWEST = 3
SECRET = 32  # bytes of a seed and of a secret key
NONCE = 12
SEALED_BYTES = NONCE + 2 * SHARE_BYTES + 16  # two shares with AES-GCM's tag


@dataclass(frozen=True)
class PublicKeys:
    """seal: c_u; mask: s_u, 32 bytes each."""

    seal: bytes
    mask: bytes


@dataclass(frozen=True)
class Secrets:
    """What a member draws for one sum: secret keys of c_u and s_u, and b_u."""

    seal: bytes
    mask: bytes
    seed: bytes

    @classmethod
    def drawn(cls) -> "Secrets":
        return cls(*(secrets.token_bytes(SECRET) for _ in range(3)))

    @property
    def public(self) -> PublicKeys:
        return PublicKeys(public_of(self.seal), public_of(self.mask))


@dataclass(frozen=True)
class Listed:
    """Who adds up what: members by number, ascending; round; threshold: t; counts: what weights are made of."""

    round: int
    threshold: int
    keys: Mapping[int, PublicKeys]
    counts: Mapping[int, int]

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that."""
        parts = [f"fedsuite secure sum 1|{self.round}|{self.threshold}"]
        for number, own in sorted(self.keys.items()):
            parts.append(f"{number}|{self.counts[number]}|{own.seal.hex()}|{own.mask.hex()}")
        return hashlib.sha256("\n".join(parts).encode()).digest()

    def complaint(self, own: int) -> str:
        """Why the member `own` must not take part; "" if it may."""
        many = len(self.keys)
        if many < FEWEST:
            return f"a sum of {many} members, expected at least {FEWEST}"
        if not many < 2 * self.threshold <= 2 * many:
            return f"threshold {self.threshold} of {many} members, expected more than half of them"
        if own not in self.keys:
            return "a list of members without this one"
        every = [key for keys in self.keys.values() for key in (keys.seal, keys.mask)]
        return "the same key twice" if len(set(every)) < len(every) else ""


def public_of(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def agreed(secret: bytes, public: bytes) -> bytes:
    """Diffie-Hellman on Curve25519; ValueError for a key that agrees on nothing."""
    other = X25519PublicKey.from_public_bytes(public)
    return X25519PrivateKey.from_private_bytes(secret).exchange(other)


def _between(what: str, digest: bytes, first: int, second: int) -> bytes:
    return b"%s|%s|%d|%d" % (what.encode(), digest, first, second)


# --- a member ---------------------------------------------------------------------------------------


def sealed_shares(own: int, drawn: Secrets, listed: Listed) -> dict[int, bytes]:
    """For every member, the own one as well, the two shares that are meant for it, encrypted."""
    places = [number + 1 for number in listed.keys]
    seeds = split(drawn.seed, listed.threshold, places)
    keys = split(drawn.mask, listed.threshold, places)
    found = {}
    for number, public in listed.keys.items():
        purpose = _between("shares", listed.digest, own, number)
        key = derived(agreed(drawn.seal, public.seal), purpose)
        nonce = secrets.token_bytes(NONCE)
        plain = seeds[number + 1] + keys[number + 1]
        found[number] = nonce + AESGCM(key).encrypt(nonce, plain, None)
    return found


def masked(
    own: int, drawn: Secrets, listed: Listed, members: Sequence[int], vector: np.ndarray
) -> np.ndarray:
    """y_u of x_u [d], words; members: U2."""
    digest = _with_members(listed, members)
    total = vector.astype(WORD)  # a copy
    total += mask(drawn.seed, _between("self", digest, own, own), len(vector))
    for number in members:
        if number != own:
            _add_pair(total, drawn.mask, own, number, listed, digest)
    return total


def opened_shares(
    own: int,
    drawn: Secrets,
    listed: Listed,
    sealed: Mapping[int, bytes],
    alive: Sequence[int],
) -> dict[int, bytes]:
    """By member its share of b_v if it is alive, else of the secret key of s_v; ValueError for a box that does not open."""
    found = {}
    for number, box in sealed.items():
        purpose = _between("shares", listed.digest, number, own)
        key = derived(agreed(drawn.seal, listed.keys[number].seal), purpose)
        try:
            plain = AESGCM(key).decrypt(box[:NONCE], box[NONCE:], None)
        except InvalidTag:
            raise ValueError(f"shares of member {number} that are not for this sum") from None
        found[number] = plain[:SHARE_BYTES] if number in alive else plain[SHARE_BYTES:]
    return found


# --- the server -------------------------------------------------------------------------------------


def unmasked(
    listed: Listed,
    members: Sequence[int],
    total: np.ndarray,
    alive: Sequence[int],
    shares: Mapping[int, Mapping[int, bytes]],
) -> np.ndarray:
    """sum x_u over those alive, from the sum of their y_u. shares: by who gave them, by whom they are of: `threshold` at
    least; ValueError where they do not give back what they are of."""
    digest, result = _with_members(listed, members), total.astype(WORD)
    given = dict(sorted(shares.items())[: listed.threshold])
    for number in members:
        secret = combine({who + 1: of[number] for who, of in given.items()}, SECRET)
        if number in alive:
            result -= mask(secret, _between("self", digest, number, number), len(total))
            continue
        if public_of(secret) != listed.keys[number].mask:
            raise ValueError(f"the shares of the key of member {number} do not give it back")
        for other in alive:  # each of them has added its pair's mask with the opposite sign
            _add_pair(result, secret, number, other, listed, digest)
    return result


def _with_members(listed: Listed, members: Sequence[int]) -> bytes:
    fixed = ",".join(map(str, sorted(members))).encode()
    return hashlib.sha256(listed.digest + fixed).digest()


def _add_pair(
    total: np.ndarray, secret: bytes, own: int, other: int, listed: Listed, digest: bytes
) -> None:
    """Put what `own` adds for its pair with `other` on top of `total`."""
    shared = agreed(secret, listed.keys[other].mask)
    words = mask(shared, _between("pair", digest, *sorted((own, other))), len(total))
    if own < other:
        total += words
    else:
        total -= words
