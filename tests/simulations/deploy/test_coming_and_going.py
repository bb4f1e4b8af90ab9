"""A deployment that changes: nodes that join it, and certificates that are made anew before they end."""

import base64
import json
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import simulations.deploy.check.registered
from fedsuite.roster.members import Member, Roster, read_roster, write_roster
from fedsuite.roster.node import read_node
from fedsuite.roster.node_report import Part, extended, fingerprint_of, write_part
from simulations.deploy.check.probe import ask
from simulations.deploy.check.readiness import Subject, findings
from simulations.deploy.kit.address import Address
from simulations.deploy.kit.bundle import make_kit
from simulations.deploy.kit.certificates import (
    Signed,
    days_left,
    hosts_of,
    make_authority,
    make_server,
    read_certificate,
)
from simulations.deploy.kit.keys import fingerprint_of_private, read_private
from simulations.deploy.kit.renewing import ending_soon
from simulations.deploy.kit.server_folder import read_server
from simulations.deploy.kit.units import compose_text
from simulations.engines.flower import free_port
from simulations.engines.nodes.connection import connection_of
from simulations.engines.ray.placement import Resources
from simulations.experiments.launching import Way
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request
from tests.deployment import NAMES, answering, new_kit, small_roster
from tests.simulations.deploy.test_kit import RUNS

Call = Callable[..., tuple[int, str, str]]
FIR = Part("fedvln", Member("fir", "seen", 6, {"houses": ["fir"]}), {"feature-size": 8})


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- coming ---------------------------------------------------------------------------------------


def test_a_node_joins(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit", host="10.0.0.7", port=8443)
    before = content(kit)
    code, out, err = call("deploy", "add", "kit", "fir", engine=False)
    assert (code, err) == (0, ""), err
    assert "nodes/fir: for that node's machine alone" in out and "deploy register" in out
    after = content(kit)
    of_node = {f"nodes/fir/{file}" for file in ("node.toml", "node.key", "node.key.pub", "ca.crt")}
    assert after.keys() - before.keys() == {*of_node, "server/keys/fir.pub"}
    assert {k for k in before if after[k] != before[k]} == {"compose.yml"}
    assert after["compose.yml"].decode() == compose_text([*NAMES, "fir"], 8443)
    own = kit / "nodes" / "fir"
    assert after["nodes/fir/ca.crt"] == before["nodes/oak/ca.crt"]
    assert fingerprint_of_private(read_private(own / "node.key")) == fingerprint_of(
        kit / "server" / "keys" / "fir.pub"
    )
    node = read_node(own / "node.toml", rostered=False)
    assert (node.name, node.superlink) == ("fir", "10.0.0.7:8443")
    private = (own, own / "data", own / "node.key", own / "node.toml")
    assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in private)
    code, _, err = call("deploy", "add", "kit", "fir", engine=False)
    assert code == 2 and "keys/fir.pub: is there already, nothing was written" in err
    assert content(kit) == after


def test_its_entry_is_for_new_runs(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit")
    old = (kit / "server" / "roster.json").read_bytes()
    write_part(tmp_path / "fir.json", FIR)
    code, out, err = call("deploy", "add", "kit", "fir", "--part", "fir.json", engine=False)
    assert (code, err) == (0, ""), err
    roster = read_roster(kit / "server" / "roster.json")
    assert roster.names == [*NAMES, "fir"] and roster.words == small_roster().words
    assert roster.members[3].key == fingerprint_of(kit / "nodes" / "fir" / "node.key.pub")
    assert roster.members[:3] == read_roster_of(old, tmp_path).members
    for name in roster.names:
        assert read_roster(kit / "nodes" / name / "roster.json").digest == roster.digest
    (kept,) = (kit / "server").glob("roster-*.json")
    assert kept.read_bytes() == old and f"{kept}: the roster of before" in out
    code, _, err = call("deploy", "add", "kit", "fir", "--part", "fir.json", engine=False)
    assert code == 2 and "fir is on the roster already" in err


def read_roster_of(data: bytes, folder: Path) -> Roster:
    (folder / "old.json").write_bytes(data)
    return read_roster(folder / "old.json")


def test_a_node_whose_data_are_here(tmp_path: Path, call: Call) -> None:
    """A third party joins two: it says for itself what stands on the roster."""
    (tmp_path / "run.toml").write_text(RUNS["fedrl"])
    done = call("deploy", "init", "kit", "--run", "run.toml", "--host", "localhost", engine=False)
    assert done[0] == 0, done
    three = ("--run", "run.toml", "--set", "federation.parties=3")
    done = call("deploy", "add", "kit", "gamma", *three, engine=False)
    assert done[0] == 0, done
    other = call("deploy", "init", "all", *three, "--host", "localhost", engine=False)
    assert other[0] == 0, other
    rosters = [read_roster(tmp_path / kit / "server" / "roster.json") for kit in ("kit", "all")]
    assert rosters[0].digest == rosters[1].digest and rosters[0].names[2] == "gamma"


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (replace(FIR, facts={"feature-size": 9}), "feature-size is 9, on the roster it is 8"),
        (replace(FIR, member=replace(FIR.member, name="yew")), "is what yew says, not fir"),
    ],
)
def test_who_does_not_fit_changes_no_roster(
    tmp_path: Path, call: Call, part: Part, complaint: str
) -> None:
    kit = new_kit(tmp_path / "kit")
    assert call("deploy", "add", "kit", "fir", engine=False)[0] == 0
    before = content(kit)
    write_part(tmp_path / "fir.json", part)
    code, _, err = call("deploy", "add", "kit", "fir", "--part", "fir.json", engine=False)
    assert code == 2 and complaint in err and err.count("\n") == 1
    assert content(kit) == before


def test_numbers_and_sizes_grow_with_the_roster() -> None:
    own = Part("cdl", FIR.member, {"feature-size": 8}, {"frames": 9.0}, "silos", "num-silos")
    roster = replace(small_roster(), facts={"feature-size": 8, "frames": 7.0, "num-silos": 3})
    made = extended(roster, own, "fir.json")
    assert made.facts == {"feature-size": 8, "frames": 9.0, "num-silos": 4}
    assert made.members[3].details == {"houses": ["fir"], "silos": [3]}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("kit ../fir", "../fir: a name must be letters"),
        ("kit oak", "keys/oak.pub: is there already"),
        ("none fir", "none/server: no server.toml in it"),
        ("kit fir --part none.json", "none.json: "),
        ("kit fir --part a.json --run b.toml", "give --run where the node's data are here, or"),
    ],
)
def test_bad_input_when_adding(tmp_path: Path, call: Call, words: str, complaint: str) -> None:
    kit = new_kit(tmp_path / "kit")
    roster = (kit / "server" / "roster.json").read_bytes()
    code, _, err = call("deploy", "add", *words.split(), engine=False)
    assert code == 2 and complaint in err and err.count("\n") == 1, err
    assert (kit / "server" / "roster.json").read_bytes() == roster
    assert not (tmp_path / "fir").exists() and not (tmp_path / "none").exists()


def test_a_compose_file_that_was_changed_is_left_alone(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit")
    written = (kit / "compose.yml").read_bytes()
    for name, changed in (
        ("fir", written.replace(b"restart: unless-stopped", b"restart: always")),
        ("yew", written + b"# caf\xe9, in Latin-1\n"),
    ):
        (kit / "compose.yml").write_bytes(changed)
        code, out, _ = call("deploy", "add", "kit", name, engine=False)
        assert code == 0 and "compose.yml: was changed by hand and is left alone" in out
        assert (kit / "compose.yml").read_bytes() == changed


def test_nobody_is_entered_without_a_roster(tmp_path: Path, call: Call) -> None:
    make_kit(tmp_path / "kit", ["oak"], Address("localhost", 9092))
    write_part(tmp_path / "fir.json", FIR)
    code, _, err = call("deploy", "add", "kit", "fir", "--part", "fir.json", engine=False)
    assert code == 2 and "roster.json: no such file; nobody is on a roster yet" in err


# --- certificates ---------------------------------------------------------------------------------


def age(kit: Path, days: float, of_authority: int) -> None:
    """Certificates of the same keys and hosts that end in so many days."""
    signer = _kept(kit)
    aged = make_authority(of_authority, signer)
    hosts = hosts_of(read_certificate(kit / "server" / "server.pem", ""))
    server = make_server(aged, hosts, days)  # type: ignore[arg-type]
    for file in (kit / "ca" / "ca.crt", kit / "server" / "ca.crt", *kit.glob("nodes/*/ca.crt")):
        file.write_bytes(aged.certificate_pem())
    (kit / "server" / "server.pem").write_bytes(server.certificate_pem())
    (kit / "server" / "server.key").write_bytes(server.key_pem())


def _kept(kit: Path) -> Signed:
    from simulations.deploy.kit.renewing import _authority

    return _authority(kit / "ca")


def test_a_certificate_is_renewed_for_the_nodes_that_are_there(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit", host="fed.example")
    age(kit, 12, 400)
    node = kit / "nodes" / "oak"
    trusted = (node / "ca.crt").read_bytes()
    (line,) = ending_soon(read_server(kit / "server"))
    assert "server.pem: ends in 1" in line and line.endswith("`fedsuite deploy renew`")
    with answering(kit) as address:
        told = {f.what: f for f in findings(Subject(node / "node.toml", str(address)))}
        assert told["SuperLink"].ok and "; warning: it ends in 1" in told["SuperLink"].text
        assert told["ca.crt"].ok and "warning" not in told["ca.crt"].text
    old = {name: (kit / "server" / name).read_bytes() for name in ("server.pem", "server.key")}
    code, out, err = call("deploy", "renew", "kit", "--days", "90", engine=False)
    assert (code, err) == (0, "") and "server.pem: for fed.example, localhost, 127.0.0.1" in out
    assert all((kit / "server" / name).read_bytes() != data for name, data in old.items())
    assert stat.S_IMODE((kit / "server" / "server.key").stat().st_mode) == 0o600
    made = read_certificate(kit / "server" / "server.pem", "")
    assert 88 <= days_left(made.not_valid_after_utc) <= 90 and "as short as" not in out
    assert (node / "ca.crt").read_bytes() == trusted and not list(
        ending_soon(read_server(kit / "server"))
    )
    with answering(kit) as address:  # a whole TLS handshake
        assert days_left(ask(address, node / "ca.crt").until) >= 88


def test_a_certificate_ends_with_its_authority(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit")
    age(kit, 12, 200)
    code, out, err = call("deploy", "renew", "kit", "--days", "300", engine=False)
    assert (code, err) == (0, "") and "it is as short as the authority, which ends on" in out
    made = read_certificate(kit / "server" / "server.pem", "")
    assert 198 <= days_left(made.not_valid_after_utc) <= 200


def test_the_authority_is_renewed_with_its_key(tmp_path: Path, call: Call) -> None:
    """Nodes with the certificate of before and nodes with the new one trust the SuperLink, before it is started anew and
    after."""
    kit = new_kit(tmp_path / "kit")
    age(kit, 12, 12)
    before = content(kit)
    code, _, err = call("deploy", "renew", "kit", engine=False)
    assert code == 2 and "ca.crt: the authority ends in 1" in err and "give --authority" in err
    assert content(kit) == before
    shutil.copytree(kit, tmp_path / "old")
    code, out, err = call("deploy", "renew", "kit", "--authority", engine=False)
    assert (code, err) == (0, ""), err
    assert "every node needs it as its ca.crt before" in out
    news = {k for k, v in content(kit).items() if v != before[k]}
    ours = {f"{place}/ca.crt" for place in ("ca", "server", *(f"nodes/{n}" for n in NAMES))}
    assert news == {*ours, "server/server.pem", "server/server.key"}
    certificate = read_certificate(kit / "ca" / "ca.crt", "")
    assert days_left(certificate.not_valid_after_utc) >= 2 * 1825 - 2
    for serving in (kit, tmp_path / "old"):
        with answering(serving) as address:
            for trusting in (kit, tmp_path / "old"):
                assert ask(address, trusting / "nodes" / "oak" / "ca.crt").ahead_s is not None


def test_a_certificate_of_somebody_elses_is_left_alone(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit")
    other = make_server(make_authority(), ["fed.example"])
    (kit / "server" / "server.pem").write_bytes(other.certificate_pem())
    code, _, err = call("deploy", "renew", "kit", engine=False)
    assert code == 2 and "was not signed by this folder's authority and is left alone" in err
    assert (kit / "server" / "server.pem").read_bytes() == other.certificate_pem()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda ca: (ca / "ca.key").unlink(), "ca.key: no such file, expected the authority's key"),
        (lambda ca: (ca / "ca.key").write_text("mine"), "ca.key: no key of an elliptic curve"),
        (lambda ca: with_another_algorithm(ca / "ca.key"), "ca.key: no key of an elliptic curve"),
        (
            lambda ca: (ca / "ca.key").write_bytes(make_authority().key_pem()),
            "ca.key: is not the key of",
        ),
    ],
)
def test_an_authority_that_is_not_there(
    tmp_path: Path, call: Call, damage: Callable[[Path], object], complaint: str
) -> None:
    kit = new_kit(tmp_path / "kit")
    before = content(kit / "server")
    damage(kit / "ca")
    code, _, err = call("deploy", "renew", "kit", engine=False)
    assert code == 2 and complaint in err and err.count("\n") == 1
    assert content(kit / "server") == before


def test_a_folder_in_place_of_a_node_s_certificate(tmp_path: Path, call: Call) -> None:
    kit = new_kit(tmp_path / "kit")
    file = kit / "nodes" / "elm" / "ca.crt"
    file.unlink()
    file.mkdir()
    before = content(kit)
    code, _, err = call("deploy", "renew", "kit", "--authority", engine=False)
    assert code == 2 and "elm/ca.crt" in err and err.count("\n") == 1
    assert content(kit) == before


def with_another_algorithm(key: Path) -> None:
    """A key in PEM form of a kind that nobody knows."""
    lines = key.read_text(encoding="utf-8").splitlines()
    der = base64.b64decode("".join(lines[1:-1]))
    ec_public_key = bytes.fromhex("2a8648ce3d0201")
    assert der.count(ec_public_key) == 1
    other = der.replace(ec_public_key, ec_public_key[:-1] + b"\x09")
    text = "\n".join([lines[0], base64.b64encode(other).decode(), lines[-1], ""])
    key.write_text(text, encoding="utf-8")


def test_what_ends_soon_is_said_of_each_certificate(tmp_path: Path) -> None:
    kit = new_kit(tmp_path / "kit")
    age(kit, 3, 3)
    lines = list(ending_soon(read_server(kit / "server")))
    assert [line.partition(" ends in ")[0] for line in lines] == [
        f"{kit / 'server' / name}:" for name in ("server.pem", "ca.crt")
    ]
    age(kit, -0.5, 3)
    assert "server.pem: has ended on " in next(ending_soon(read_server(kit / "server")))


def test_commands_that_use_it_say_so(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulations.deploy.check.registered, "PATIENCE_S", 0.1)
    kit = new_kit(tmp_path / "kit", free_port())
    age(kit, 3, 400)
    (line,) = ending_soon(read_server(kit / "server"))
    code, _, err = call("deploy", "status", "kit/server", engine=False)
    assert code == 1 and err.splitlines()[0] == f"warning: {line}"  # no SuperLink is up
    (tmp_path / "run.toml").write_text(RUNS["fedrl"])
    (plan,) = plan_experiment(Request(tmp_path / "run.toml", [], dry=True)).plans.values()
    way = Way("deploy", Resources(), connection_of(str(kit / "server")))
    members = (Member("alpha", "alpha", 3), Member("beta", "beta", 3))
    assert line in way.remarks(plan, Roster(members, {"step-limit": 8}))


def test_rosters_that_a_node_keeps_are_readable(tmp_path: Path) -> None:
    """What `extended` makes is read back as it is."""
    made = extended(small_roster(), FIR, "fir.json")
    write_roster(tmp_path / "roster.json", made)
    assert read_roster(tmp_path / "roster.json").digest == made.digest
    assert json.loads((tmp_path / "roster.json").read_text())["words"] == list(made.words)
