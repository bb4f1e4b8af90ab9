"""Fingerprints of SuperNodes' public keys, as `ssh-keygen -lf KEY.pub` prints them."""

import base64
import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)


def fingerprint(public_key: bytes) -> str:
    """SHA256:... of a key in PEM, as Flower's grid tells it; "" for what is no such key, as of simulated nodes."""
    try:
        key = load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        return ""
    if not isinstance(key, EllipticCurvePublicKey):
        return ""
    blob = base64.b64decode(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
