"""Certificates that real TLS clients accept and refuse, and keys that Flower takes."""

import os
import pwd
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.cli.supernode.register import try_load_public_key

from fedsuite.errors import InputError
from fedsuite.privacy.identity import fingerprint
from fedsuite.roster.node_report import fingerprint_of
from simulations.deploy.kit.certificates import (
    Signed,
    hosts_of,
    make_authority,
    make_server,
    read_authority,
    read_certificate,
)
from simulations.deploy.kit.keys import (
    check_private,
    fingerprint_of_private,
    make_key,
    read_private,
    read_public,
)


def handshake(folder: Path, trusted: Signed, server: Signed, host: str) -> None:
    """A whole TLS handshake in memory; raises what the client has against the server."""
    for name, data in (
        ("ca.crt", trusted.certificate_pem()),
        ("pem", server.certificate_pem()),
        ("key", server.key_pem()),
    ):
        (folder / name).write_bytes(data)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "pem", folder / "key")
    asking = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(back, there, server_hostname=host)
    other = serving.wrap_bio(there, back, server_side=True)
    for _ in range(3):
        for side in (client, other):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.version() == "TLSv1.3" and client.getpeercert()


@pytest.mark.parametrize("host", ["fed.example", "localhost", "127.0.0.1", "10.0.0.7", "::1"])
def test_names_and_addresses_verify(tmp_path: Path, host: str) -> None:
    authority = make_authority()
    hosts = ["fed.example", "10.0.0.7", "localhost", "127.0.0.1", "::1", "localhost"]
    handshake(tmp_path, authority, make_server(authority, hosts), host)


@pytest.mark.parametrize(
    ("host", "days", "other", "why"),
    [
        ("oak.example", 9, False, "Hostname mismatch"),
        ("10.0.0.8", 9, False, "IP address mismatch"),
        ("fed.example", 9, True, "unable to get local issuer|self-signed"),
        ("fed.example", -0.5, False, "certificate has expired"),
    ],
)
def test_others_do_not(tmp_path: Path, host: str, days: float, other: bool, why: str) -> None:
    authority = make_authority()
    trusted = make_authority() if other else authority
    server = make_server(authority, ["fed.example", "10.0.0.7"], days)  # type: ignore[arg-type]
    with pytest.raises(ssl.SSLCertVerificationError, match=why):
        handshake(tmp_path, trusted, server, host)


def test_a_server_certificate_signs_nothing(tmp_path: Path) -> None:
    """Whoever takes the server's key can be no other server."""
    server = make_server(make_authority(), ["fed.example"])
    forged = make_server(server, ["bank.example"])
    with pytest.raises(ssl.SSLCertVerificationError, match=r"CA|issuer"):
        handshake(tmp_path, server, forged, "bank.example")


def test_an_authority_that_is_over_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(make_authority(-0.5).certificate_pem())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not now; set the clock, or make new certificates"):
        read_authority(file)
    file.write_text("mine")
    with pytest.raises(InputError, match=r"no certificate in PEM form; copy ca\.crt"):
        read_authority(file)


def test_a_damaged_certificate_is_refused_or_read(tmp_path: Path) -> None:
    """Parts of a certificate are parsed only when they are asked for; damage there must be told when the file is read."""
    authority = make_authority()
    refused = 0
    for place, found in enumerate((authority, make_server(authority, ["fed.example", "10.0.0.7"]))):
        whole = found.certificate.public_bytes(serialization.Encoding.DER)
        for at in range(len(whole)):
            damaged = whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]
            (file := tmp_path / f"{place}.pem").write_text(ssl.DER_cert_to_PEM_cert(damaged))
            try:
                read = read_certificate(file, "put it back")
            except InputError as error:
                refused += 1
                assert str(error) == f"{file}: no certificate in PEM form; put it back"
            else:
                made = make_authority(9, Signed(authority.key, read))
                assert len(hosts_of(read)) + len(made.certificate.subject.rdns) > 0
                assert read.public_key() is not None and read.not_valid_after_utc
    assert refused > 200


def test_keys_are_those_that_flower_takes(tmp_path: Path) -> None:
    private, public = make_key("oak")
    (tmp_path / "node.key").write_bytes(private)
    (tmp_path / "node.key.pub").write_bytes(public)
    key = read_private(tmp_path / "node.key")
    name, pem = read_public(tmp_path / "node.key.pub")
    assert name == "oak" and pem == try_load_public_key(tmp_path / "node.key.pub")
    prints = {
        fingerprint(pem),
        fingerprint_of_private(key),
        fingerprint_of(tmp_path / "node.key.pub"),
    }
    assert len(prints) == 1
    assert make_key("oak")[0] != private


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed")
def test_the_fingerprint_is_the_one_that_ssh_keygen_prints(tmp_path: Path) -> None:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        pytest.skip("ssh-keygen wants a user who has a name")
    file = tmp_path / "k.pub"
    file.write_bytes(make_key("elm")[1])
    shown = subprocess.run(["ssh-keygen", "-lf", file], capture_output=True, text=True, check=True)
    assert shown.stdout.split()[1] == fingerprint_of(file)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.key"
    with pytest.raises(
        InputError, match="no such file, expected this node's private key; make one"
    ):
        read_private(file)
    pkcs8 = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for data in (b"mine", pkcs8, make_key("oak")[1]):
        file.write_bytes(data)
        with pytest.raises(
            InputError, match="no private key of an elliptic curve in OpenSSH's form"
        ):
            read_private(file)
    with pytest.raises(
        InputError, match=r"others than its owner may read or write it \(mode 0640\)"
    ):
        file.chmod(0o640)
        check_private(file)
    with pytest.raises(InputError, match="no public key of an elliptic curve"):
        file.write_bytes(make_key("oak")[0])
        read_public(file)


@pytest.mark.parametrize("comment", ["", "a/b"])
def test_a_key_without_a_name_is_called_as_its_file(tmp_path: Path, comment: str) -> None:
    file = tmp_path / "fir.pub"
    file.write_bytes(make_key(comment)[1])
    assert read_public(file)[0] == "fir"
