"""Sealed messages against a program of its own, and everything that must not open."""

import dataclasses
import hashlib
import hmac
import itertools

import numpy as np
import pytest
from Crypto.Cipher import AES

from fedsuite.privacy.identity import drawn_key, fingerprint_of
from fedsuite.privacy.sealing import (
    ANNOUNCED,
    OVERHEAD,
    Sealer,
    announced,
    drawn_secret,
    packed,
    read_announced,
    sealed_bytes,
    unpacked,
)  # fmt: skip
from fedsuite.privacy.secure_sum import public_of
from tests.privacy.test_secure_sum import own_agreement, own_hkdf

PLACE, MESSAGE = "backbone of mixing 4", b"theta" * 100


def members(count: int = 3) -> list[Sealer]:
    secrets = [drawn_secret() for _ in range(count)]
    public = {p: public_of(secret) for p, secret in enumerate(secrets)}
    return [Sealer(p, secret, public) for p, secret in enumerate(secrets)]


def test_boxes_are_those_of_a_program_of_its_own() -> None:
    one, other, _ = members()
    box = one.seal(1, 7, PLACE, MESSAGE)
    lines = "\n".join(f"{p}|{key.hex()}" for p, key in sorted(one.public.items()))
    where = f"{hashlib.sha256(lines.encode()).hexdigest()}|7|0|1".encode()
    shared = own_agreement(other.secret, one.public[0])
    about = PLACE.encode()
    told = len(about).to_bytes(8, "big") + about + MESSAGE
    nonce = hmac.digest(own_hkdf(shared, b"nonce|" + where), told, "sha256")[:12]
    cipher = AES.new(own_hkdf(shared, b"seal|" + where), AES.MODE_GCM, nonce=nonce)
    cipher.update(about)
    assert box == nonce + b"".join(cipher.encrypt_and_digest(MESSAGE))
    assert len(box) == len(MESSAGE) + OVERHEAD


def test_the_receiver_reads_it_and_a_member_itself() -> None:
    one, other, third = members()
    assert other.open(0, 7, PLACE, one.seal(1, 7, PLACE, MESSAGE)) == MESSAGE
    assert one.open(0, 7, PLACE, one.seal(0, 7, PLACE, MESSAGE)) == MESSAGE
    with pytest.raises(ValueError, match="not what member 0 has sealed for member 2"):
        third.open(0, 7, PLACE, one.seal(1, 7, PLACE, MESSAGE))


@pytest.mark.parametrize(
    ("sender", "round", "place"),
    [(2, 7, PLACE), (1, 7, PLACE), (0, 8, PLACE), (0, 7, "backbone of mixing 5")],
)
def test_a_box_of_another_sender_round_or_place_does_not_open(
    sender: int, round: int, place: str
) -> None:
    one, other, _ = members()
    told = f"not what member {sender} has sealed for member 1, round {round}, {place}"
    with pytest.raises(ValueError, match=told):
        other.open(sender, round, place, one.seal(1, 7, PLACE, MESSAGE))


def test_no_changed_byte_and_no_shorter_box_opens() -> None:
    one, other, _ = members()
    box = one.seal(1, 7, PLACE, b"abc")
    for at in range(len(box)):
        changed = bytearray(box)
        changed[at] ^= 1
        with pytest.raises(ValueError, match="was changed on its way"):
            other.open(0, 7, PLACE, bytes(changed))
    for length in (0, 11, 12, len(box) - 1):
        with pytest.raises(ValueError, match="not what member 0"):
            other.open(0, 7, PLACE, box[:length])


def test_the_order_of_a_list_does_not_matter() -> None:
    one, other, _ = members()
    turned = dataclasses.replace(other, public=dict(reversed(other.public.items())))
    assert turned.open(0, 7, PLACE, one.seal(1, 7, PLACE, MESSAGE)) == MESSAGE


def test_a_list_with_another_key_in_it_opens_nothing() -> None:
    """Even where the two keys at work are the right ones."""
    one, other, _ = members()
    forged = dataclasses.replace(other, public={**other.public, 2: public_of(drawn_secret())})
    with pytest.raises(ValueError, match="under another key"):
        forged.open(0, 7, PLACE, one.seal(1, 7, PLACE, MESSAGE))


def test_a_nonce_stands_for_one_message() -> None:
    """The same message is the same box; anything else has another nonce, under any key."""
    one, other, _ = members()
    places, messages, rounds = ("a", "ab"), (b"bc", b"c", b""), (1, 2)
    nonces: set[bytes] = set()
    cases = [*itertools.product((1, 2), rounds, places, messages)]
    for case in cases:
        assert one.seal(*case) == one.seal(*case)
        nonces.add(one.seal(*case)[:12])
    assert len(nonces) == len(cases)  # "a" + "bc" is not "ab" + "c" either
    assert one.seal(1, 1, "a", b"bc") != other.seal(0, 1, "a", b"bc")  # either direction


def test_who_announces_a_key() -> None:
    key, secret = drawn_key(), drawn_secret()
    said = announced(key, "run", 2, secret)
    assert len(said) == ANNOUNCED
    assert read_announced(said, "run", 2) == (fingerprint_of(key.public_key()), public_of(secret))
    for run, member in (("other", 2), ("run", 1)):
        with pytest.raises(ValueError, match="signature"):
            read_announced(said, run, member)
    changed = bytearray(said)
    changed[100] ^= 1
    with pytest.raises(ValueError, match="signature"):
        read_announced(bytes(changed), "run", 2)


def test_arrays_as_messages() -> None:
    arrays = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "n": np.array(7),
        "e": np.zeros((0, 2), np.float32),
    }
    forms = {k: (v.shape, str(v.dtype)) for k, v in arrays.items()}
    message = packed(arrays)
    assert sealed_bytes(forms) == OVERHEAD + len(message) == OVERHEAD + 32
    found = unpacked(message, forms)
    assert list(found) == list(arrays)
    assert all(
        found[k].tobytes() == v.tobytes() and found[k].shape == v.shape for k, v in arrays.items()
    )
    for wrong in (message[:-1], message + b"0"):
        with pytest.raises(ValueError, match="bytes, expected 32"):
            unpacked(wrong, forms)
