"""`fedsuite deploy renew`: certificates of a deployment anew, from the key of the authority that its folder keeps."""

import datetime
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable, telling, write_atomically
from simulations.deploy.kit.bundle import AUTHORITY
from simulations.deploy.kit.certificates import (
    SOON_DAYS,
    Signed,
    days_left,
    ending,
    hosts_of,
    make_authority,
    make_server,
    read_certificate,
)
from simulations.deploy.kit.server_folder import ServerFolder, read_server

RENEW = "renew it with `fedsuite deploy renew`"
RENEW_AUTHORITY = "renew it with `fedsuite deploy renew --authority`"
_PUT_BACK = "put it back"


def renew(kit: Path, days: int, authority: bool) -> Iterator[str]:
    """A new key and certificate for the SuperLink, for the hosts of the one that it has; lines that say what to do.

    authority: the authority's certificate too, with its key and name, in the folder of the deployment. InputError, and
    nothing written, for certificates that this authority has not signed, and for an authority that has ended or soon ends.
    """
    signer = _authority(kit / "ca")
    server = read_server(kit / "server")
    file = server.path / "server.pem"
    hosts = _own_hosts(file, signer)
    if authority:
        signer = make_authority(2 * days, signer)
    end = signer.certificate.not_valid_after_utc
    if (left := days_left(end)) < SOON_DAYS:
        raise InputError(
            f"{kit / 'ca' / AUTHORITY}: {ending('the authority', end, 'renew both: give --authority')}"
        )
    made = make_server(signer, hosts, min(days, left))
    if authority:
        yield from _hand_out(kit, server, signer)
    write_atomically(server.path / "server.key", made.key_pem(), private=True)
    write_atomically(file, made.certificate_pem())
    until = made.certificate.not_valid_after_utc
    yield f"{file}: for {', '.join(hosts)}, valid until {until:%Y-%m-%d}; server.key beside it is new"
    yield "copy both to the SuperLink's machine if that is another one, and start `fedsuite deploy server` again"
    if left < days:
        yield f"it is as short as the authority, which ends on {end:%Y-%m-%d}; --authority renews both"


def ending_soon(server: ServerFolder) -> Iterator[str]:
    """A line for each certificate of the SuperLink that ends soon or has ended."""
    for name, cure in (("server.pem", RENEW), (AUTHORITY, RENEW_AUTHORITY)):
        file = server.path / name
        end = read_certificate(file, _PUT_BACK).not_valid_after_utc
        yield from filter(None, [ending(f"{file}:", end, cure)])


def _authority(folder: Path) -> Signed:
    """The authority that the folder keeps."""
    file = folder / "ca.key"
    check_readable(file, "the authority's key", "give the folder that `fedsuite deploy init` made")
    if not file.exists():
        raise InputError(
            f"{file}: no such file, expected the authority's key; give the folder that `fedsuite deploy init` made"
        )
    with telling(file):
        data = file.read_bytes()
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError(
            f"{file}: no key of an elliptic curve in PEM form; {_PUT_BACK} from a copy"
        )
    certificate = read_certificate(folder / AUTHORITY, f"{_PUT_BACK} from a copy")
    if certificate.public_key() != key.public_key():
        raise InputError(f"{file}: is not the key of {folder / AUTHORITY}; {_PUT_BACK} from a copy")
    return Signed(key, certificate)


def _own_hosts(file: Path, signer: Signed) -> list[str]:
    """The hosts of a certificate that this authority has signed; nobody else's is replaced."""
    found = read_certificate(file, _PUT_BACK)
    try:
        found.verify_directly_issued_by(signer.certificate)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        raise InputError(
            f"{file}: was not signed by this folder's authority and is left alone; renew it where it was made, or move it "
            "away together with server.key and make a new folder"
        ) from None
    return hosts_of(found)


def _hand_out(kit: Path, server: ServerFolder, signer: Signed) -> Iterator[str]:
    """The authority's new certificate, wherever the folder has the one of before."""
    before = _bytes_of(kit / "ca" / AUTHORITY)
    end = read_certificate(kit / "ca" / AUTHORITY, _PUT_BACK).not_valid_after_utc
    others = [server.authority, *sorted((kit / "nodes").glob(f"*/{AUTHORITY}"))]
    for file in (kit / "ca" / AUTHORITY, *(f for f in others if _bytes_of(f) == before)):
        write_atomically(file, signer.certificate_pem())
    yield (
        f"{server.authority}: the authority is valid until {signer.certificate.not_valid_after_utc:%Y-%m-%d}; every node "
        f"needs it as its ca.crt before {_day_of(end)}, the end of the one of before"
    )


def _bytes_of(file: Path) -> bytes:
    with telling(file):
        return file.read_bytes()


def _day_of(end: datetime.datetime) -> str:
    return f"{end:%Y-%m-%d}"
