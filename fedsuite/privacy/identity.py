"""Who somebody is to its peers: a key of the curve P-384, as SuperNodes have one, and what is signed with it.

What somebody announces is its identity's public key as a point, what it says, and the signature (ECDSA with SHA-384) of what
that is for and what it says. In a sum that is a member's two public keys of the round, c_u and s_u
(fedsuite/privacy/secure_sum.py), in ANNOUNCED bytes; where messages are sealed, its public key of the run
(fedsuite/privacy/sealing.py).
"""

import base64
import hashlib

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_private_key,
)

from fedsuite.privacy.secure_sum import SECRET, PublicKeys

CURVE = ec.SECP384R1()
_POINT, _NUMBER = 97, 48
SIGNED_WITH = _POINT + 2 * _NUMBER  # bytes beside what is said
ANNOUNCED = SIGNED_WITH + 2 * SECRET
_SIGNED_WITH = ec.ECDSA(SHA384())
Key = ec.EllipticCurvePrivateKey


def fingerprint(public_key: bytes) -> str:
    """SHA256:... of a key in PEM, as Flower's grid tells it; "" for what is no such key, as of simulated nodes."""
    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        return ""
    return fingerprint_of(key) if isinstance(key, ec.EllipticCurvePublicKey) else ""


def fingerprint_of(key: ec.EllipticCurvePublicKey) -> str:
    """The same of a key, as `ssh-keygen -lf KEY.pub` prints it."""
    blob = base64.b64decode(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def drawn_key() -> Key:
    return ec.generate_private_key(CURVE)


def key_of_number(number: bytes) -> Key:
    """The key whose secret number this is."""
    return ec.derive_private_key(int.from_bytes(number, "big"), CURVE)


def number_of(key: Key) -> bytes:
    return key.private_numbers().private_value.to_bytes(_NUMBER, "big")


def read_key(data: bytes) -> Key:
    """A private key in OpenSSH's form; ValueError for what is no key of P-384 without a passphrase."""
    try:
        key = load_ssh_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != CURVE.name:
        raise ValueError("no private key of P-384 in OpenSSH's form without a passphrase")
    return key


def announced(key: Key, round: int, member: int, public: PublicKeys) -> bytes:
    """What a member of a sum says of its keys."""
    return signed(key, _purpose(round, member), public.seal + public.mask)


def read_announced(data: bytes, round: int, member: int) -> tuple[str, PublicKeys]:
    """The fingerprint of who says so, and the keys; ValueError for a false signature, and for what is no key."""
    who, keys = read_signed(data, _purpose(round, member), 2 * SECRET)
    return who, PublicKeys(keys[:SECRET], keys[SECRET:])


def signed(key: Key, purpose: bytes, said: bytes) -> bytes:
    """What is said, with whose it is and the signature; a purpose is of one kind of message alone."""
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    numbers = decode_dss_signature(key.sign(purpose + said, _SIGNED_WITH))
    return b"".join([point, said, *(n.to_bytes(_NUMBER, "big") for n in numbers)])


def read_signed(data: bytes, purpose: bytes, size: int) -> tuple[str, bytes]:
    """The fingerprint of who has signed for this purpose, and the `size` bytes that it says; ValueError as above."""
    if len(data) != (expected := size + SIGNED_WITH):
        raise ValueError(f"{len(data)} bytes, expected {expected}")
    point, said, rest = data[:_POINT], data[_POINT : _POINT + size], data[_POINT + size :]
    r, s = (int.from_bytes(part, "big") for part in (rest[:_NUMBER], rest[_NUMBER:]))
    key = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, point)
    try:
        key.verify(encode_dss_signature(r, s), purpose + said, _SIGNED_WITH)
    except InvalidSignature:
        raise ValueError("the signature is not that of its key") from None
    return fingerprint_of(key), said


def _purpose(round: int, member: int) -> bytes:
    return f"fedsuite secure sum keys 1|{round}|{member}|".encode()
