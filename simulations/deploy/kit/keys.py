"""Keys of SuperNodes, as Flower takes them: elliptic curves of NIST, in the form of OpenSSH."""

import stat
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedsuite.errors import InputError
from fedsuite.privacy.identity import fingerprint
from fedsuite.storage.files import (
    PRIVATE_FILE,
    PRIVATE_FOLDER,
    as_typed,
    check_readable,
    path_name,
    telling,
)

CURE = "make one with `ssh-keygen -t ecdsa -b 384 -N '' -f node.key`"


def make_key(comment: str) -> tuple[bytes, bytes]:
    """A new pair: the private key and the line of the public one."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return private, _line(key.public_key()) + f" {comment}\n".encode()


def read_private(file: Path) -> ec.EllipticCurvePrivateKey:
    """A SuperNode's private key; InputError if Flower would not take it."""
    check_readable(file, "a private key", CURE)
    if not file.exists():
        raise InputError(f"{file}: no such file, expected this node's private key; {CURE}")
    with telling(file):
        data = file.read_bytes()
    try:
        key = load_ssh_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(
            f"{file}: no private key of an elliptic curve in OpenSSH's form without a passphrase; {CURE}"
        )
    return key


def check_private(path: Path) -> None:
    """InputError if others than its owner may read a file, or enter a folder."""
    with telling(path):
        mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        wanted = PRIVATE_FOLDER if path.is_dir() else PRIVATE_FILE
        raise InputError(
            f"{path}: others than its owner may read or write it (mode {mode:04o}); chmod {wanted:o} {as_typed(path)}"
        )


def read_public(file: Path) -> tuple[str, bytes]:
    """What a public key's node is called, and the key in PEM; InputError if it is none.

    The name is the key's comment where that is fit for one, else the file's.
    """
    check_readable(file, "a public key", CURE)
    with telling(file):
        line = file.read_bytes()
    try:
        key = load_ssh_public_key(line)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise InputError(
            f"{file}: no public key of an elliptic curve in OpenSSH's form; give the .pub file of a SuperNode's key"
        )
    comment = b" ".join(line.split()[2:]).decode(errors="replace")
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    try:
        return path_name(comment, "comment"), pem
    except InputError:
        return file.stem, pem


def fingerprint_of_private(key: ec.EllipticCurvePrivateKey) -> str:
    """SHA256:... of its public key, as `ssh-keygen -lf` prints it."""
    public = key.public_key()
    return fingerprint(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def _line(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
