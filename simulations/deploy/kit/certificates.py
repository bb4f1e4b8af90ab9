"""The certificates of a deployment: a private authority, and the SuperLink's certificate, which it signs."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsuite.errors import InputError
from fedsuite.storage.files import telling
from simulations.deploy.kit.address import is_ip

DAYS = 1825
SOON_DAYS = 30  # before its end a certificate is spoken of
_UNREADABLE = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_EARLIER = datetime.timedelta(days=1)  # for machines whose clocks are behind


@dataclass(frozen=True, eq=False)
class Signed:
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def certificate_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )


def make_authority(days: int = DAYS, before: Signed | None = None) -> Signed:
    """A new authority, which may sign certificates and nothing else.

    before: the one whose key and name it keeps, so that what that one has signed stays valid.
    """
    key = before.key if before else ec.generate_private_key(ec.SECP384R1())
    name = _name(f"fedsuite authority {x509.random_serial_number() % 16**8:08x}")
    name = before.certificate.subject if before else name
    builder = _begun(name, name, key, key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return Signed(key, builder.sign(key, hashes.SHA384()))


def make_server(authority: Signed, hosts: Sequence[str], days: int = DAYS) -> Signed:
    """A certificate for a server that is reached under these names and IP addresses."""
    key = ec.generate_private_key(ec.SECP384R1())
    names = x509.SubjectAlternativeName([_alternative(host) for host in dict.fromkeys(hosts)])
    issuer = authority.certificate.subject
    builder = _begun(_name("fedsuite SuperLink"), issuer, key, authority.key, days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(purpose, critical=False).add_extension(names, critical=False)
    return Signed(key, builder.sign(authority.key, hashes.SHA384()))


def read_authority(file: Path) -> x509.Certificate:
    """The authority's certificate, valid now; InputError if it is not."""
    found = read_certificate(file, "copy ca.crt from the server's folder")
    now = datetime.datetime.now(datetime.UTC)
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        raise InputError(
            f"{file}: valid from {found.not_valid_before_utc:%Y-%m-%d} to {found.not_valid_after_utc:%Y-%m-%d} (UTC), "
            "not now; set the clock, or make new certificates with `fedsuite deploy init`"
        )
    return found


def read_certificate(file: Path, cure: str) -> x509.Certificate:
    """The first certificate of a file, whether it is still valid or not; InputError if there is none."""
    with telling(file):
        data = file.read_bytes()
    try:
        found = x509.load_pem_x509_certificate(data)
        for part in ("subject", "issuer", "extensions"):  # parsed only when they are asked for
            getattr(found, part)
        found.public_key()
    except _UNREADABLE:
        raise InputError(f"{file}: no certificate in PEM form; {cure}") from None
    return found


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """The names and IP addresses that a server's certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in names]


def days_left(end: datetime.datetime) -> int:
    """Whole days from now until a certificate's end; negative after it."""
    return (end - datetime.datetime.now(datetime.UTC)).days


def ending(what: str, end: datetime.datetime, cure: str) -> str:
    """A line about a certificate that ends within SOON_DAYS, or has ended; "" for others."""
    if (left := days_left(end)) >= SOON_DAYS:
        return ""
    when = (
        f"ends in {left} days, on {end:%Y-%m-%d}" if left >= 0 else f"has ended on {end:%Y-%m-%d}"
    )
    return f"{what} {when}; {cure}"


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    """What both kinds have."""
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(now - _EARLIER)
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return builder.add_extension(own, critical=False).add_extension(above, critical=False)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(host: str) -> x509.GeneralName:
    """The kind that a host needs: clients look up IP addresses among IP addresses alone."""
    return x509.IPAddress(ipaddress.ip_address(host)) if is_ip(host) else x509.DNSName(host)
