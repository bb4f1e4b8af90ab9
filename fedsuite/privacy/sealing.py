"""Messages from one member of a run to another that whoever relays them can neither read nor change nor put elsewhere.

Every member draws a key of X25519 (RFC 7748) for the run from the operating system and announces its public half under the
signature of who it is (fedsuite/privacy/identity.py). d is the SHA-256 of all members' public keys. What i sends to j, for
one place in the run (its round, and what it is), is

  k, h  = HKDF-SHA256(X25519(i, j), purpose | d | round | i | j)             two keys of 32 bytes (RFC 5869)
  nonce = first 12 bytes of HMAC-SHA256(h, place | message)
  box   = nonce | AES-256-GCM(k, nonce, message, with `place` authenticated)

The nonce is made of the message itself (a synthetic IV: Rogaway & Shrimpton 2006). Under one k the same nonce therefore
stands for the same message at the same place, which is the same box again and tells only that it was sent again. Two
different ones share a nonce with a probability of 2^-96, and a pair of members has a k of its own for every round and either
direction, so that few are ever compared. A round that is played again after a resume is safe for the same reason, whatever
comes out of it; where it comes out alike, its boxes are the same bytes. A box opens with the keys, round, sender, receiver
and place that it was made for, and with no others.
"""

import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fedsuite.arrays import Arrays, Form
from fedsuite.privacy.identity import SIGNED_WITH, Key, read_signed, signed
from fedsuite.privacy.masked_vectors import derived
from fedsuite.privacy.secure_sum import NONCE, SECRET, agreed, public_of

STAGE, KEYS, PEERS = "stage", "seal-keys", "seal-peers"
"""Messages before round 1: a member is asked for its announcement, then told those of all."""
ON = "federation.sealed"
ANNOUNCED = SIGNED_WITH + SECRET
OVERHEAD = NONCE + 16  # bytes of a box beside its message: nonce, and tag of AES-GCM
Forms = Mapping[str, Form]


def drawn_secret() -> bytes:
    return secrets.token_bytes(SECRET)


def announced(key: Key, run: str, member: int, secret: bytes) -> bytes:
    """What a member says of its key of the run, in ANNOUNCED bytes."""
    return signed(key, _purpose(run, member), public_of(secret))


def read_announced(data: bytes, run: str, member: int) -> tuple[str, bytes]:
    """The fingerprint of who says so, and the public key; ValueError for a false signature, and for what is no key."""
    return read_signed(data, _purpose(run, member), SECRET)


def _purpose(run: str, member: int) -> bytes:
    return f"fedsuite sealed messages 1|{run}|{member}|".encode()


@dataclass(frozen=True)
class Sealer:
    """The member `own` with its secret key, among all members' public keys by number."""

    own: int
    secret: bytes
    public: Mapping[int, bytes]

    @cached_property
    def digest(self) -> str:
        """d."""
        parts = (f"{number}|{key.hex()}" for number, key in sorted(self.public.items()))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @cached_property
    def _agreed(self) -> dict[int, bytes]:
        """Agreements so far, by peer."""
        return {}

    def seal(self, receiver: int, round: int, place: str, message: bytes) -> bytes:
        """The box for `receiver`, OVERHEAD bytes longer than the message."""
        key, for_nonces = self._keys(self.own, receiver, round)
        about = place.encode()
        made = hmac.digest(for_nonces, len(about).to_bytes(8, "big") + about + message, "sha256")
        nonce = made[:NONCE]
        return nonce + AESGCM(key).encrypt(nonce, message, about)

    def open(self, sender: int, round: int, place: str, box: bytes) -> bytes:
        """The message; ValueError for what `sender` has not sealed for this member, round and place."""
        key, _ = self._keys(sender, self.own, round)
        try:
            return AESGCM(key).decrypt(box[:NONCE], box[NONCE:], place.encode())
        except (InvalidTag, ValueError):
            raise ValueError(
                f"it is not what member {sender} has sealed for member {self.own}, round {round}, {place}: it was changed "
                "on its way, is of another place, or under another key"
            ) from None

    def _keys(self, sender: int, receiver: int, round: int) -> tuple[bytes, bytes]:
        """k and h."""
        peer = receiver if sender == self.own else sender
        if peer not in self.public:
            raise ValueError(f"member {peer} has announced no key")
        if peer not in self._agreed:
            self._agreed[peer] = agreed(self.secret, self.public[peer])
        shared = self._agreed[peer]
        where = f"{self.digest}|{round}|{sender}|{receiver}".encode()
        return derived(shared, b"seal|" + where), derived(shared, b"nonce|" + where)


# --- arrays as messages -----------------------------------------------------------------------------


def sealed_bytes(forms: Forms) -> int:
    """How long the box of arrays of these shapes and types is."""
    return OVERHEAD + sum(
        math.prod(shape) * np.dtype(kind).itemsize for shape, kind in forms.values()
    )


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Numbers of all arrays, by name."""
    return b"".join(np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays))


def unpacked(message: bytes, forms: Forms) -> Arrays:
    """The arrays of these shapes and types, in the order of `forms`; ValueError for a message of another length."""
    if len(message) != (expected := sealed_bytes(forms) - OVERHEAD):
        raise ValueError(f"{len(message)} bytes, expected {expected}")
    found, at = {}, 0
    for name in sorted(forms):
        shape, kind = forms[name]
        count = math.prod(shape)
        found[name] = np.frombuffer(message, kind, count, at).reshape(shape).copy()
        at += count * np.dtype(kind).itemsize
    return {name: found[name] for name in forms}
