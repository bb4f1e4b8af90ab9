"""`fedsuite deploy check`: one line for each thing, and for each wrong thing its line with the cure."""

import os
import shutil
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedsuite.roster.members import Member, read_roster, write_roster
from fedsuite.roster.node import read_node
from fedsuite.roster.node_report import Part, disagreement
from simulations.deploy.check import readiness as checks
from simulations.deploy.check.probe import _ahead_s
from simulations.deploy.check.readiness import Subject, findings
from simulations.deploy.kit.address import Address
from simulations.deploy.kit.keys import make_key
from tests.deployment import answering, new_kit, small_roster

Call = Callable[..., tuple[int, str, str]]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Address]]:
    """A folder, and a SuperLink that answers."""
    kit = new_kit(tmp_path_factory.mktemp("made") / "kit")
    with answering(kit) as address:
        yield kit, address


@pytest.fixture
def node(made: tuple[Path, Address], tmp_path: Path) -> Path:
    """node.toml of a copy of oak's folder."""
    shutil.copytree(made[0] / "nodes" / "oak", tmp_path / "oak")
    return tmp_path / "oak" / "node.toml"


def said(node: Path, made: tuple[Path, Address], part: Part | None = None) -> dict[str, str]:
    """What was looked at, and the line."""
    subject = Subject(node, str(made[1]), part=(lambda: part) if part else None)
    return {finding.what: str(finding) for finding in findings(subject)}


def wrong(lines: dict[str, str]) -> dict[str, str]:
    return {what: line for what, line in lines.items() if line.startswith("WRONG ")}


def test_all_is_well(node: Path, made: tuple[Path, Address]) -> None:
    lines = said(node, made)
    assert wrong(lines) == {}
    assert list(lines) == [
        "node file", "roster", "data", "key", "state", "disk", "device", "threads", "Flower", "ca.crt", "SuperLink", "clock",
        "versions",
    ]  # fmt: skip
    assert lines["roster"] == "ok    roster: oak is 1 of 3, seen"
    assert lines["key"].endswith("as on the roster")


def test_the_command_says_so(node: Path, made: tuple[Path, Address], call: Call) -> None:
    command = ["deploy", "check", str(node), "--superlink", str(made[1])]
    code, out, err = call(*command, engine=False)
    assert (code, err, out.count("ok    ")) == (0, "", 13), out
    (node.parent / "node.key").chmod(0o644)
    code, out, err = call(*command, engine=False)
    assert code == 2 and err == f"error: {node}: 1 of these things must be put right\n"
    assert "WRONG key: " in out and "chmod 600" in out


@pytest.mark.parametrize(
    ("name", "what", "cure"),
    [("node.toml", "node file", "chmod 600 "), ("state", "state", "chmod 700 ")],
)
def test_what_others_may_read(
    node: Path, made: tuple[Path, Address], name: str, what: str, cure: str
) -> None:
    """Nodes of earlier versions have such files."""
    path = node.parent / name
    path.chmod(0o755 if path.is_dir() else 0o640)
    found = wrong(said(node, made))
    assert list(found) == [what] and found[what].endswith(f"{cure}{path}")
    path.chmod(0o700 if path.is_dir() else 0o600)
    assert wrong(said(node, made)) == {}


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.99])
def test_a_clock_is_compared_to_half_a_second(
    monkeypatch: pytest.MonkeyPatch, fraction: float
) -> None:
    """A server's Date has whole seconds; both clocks are the same here."""
    monkeypatch.setattr(time, "time", lambda: 1_000_000 + fraction)
    ahead_s = _ahead_s("Mon, 12 Jan 1970 13:46:40 GMT")
    assert ahead_s == pytest.approx(fraction - 0.5) and _ahead_s("yesterday") is None


def change(node: Path, old: str, new: str) -> None:
    text = node.read_text(encoding="utf-8")
    assert old in text
    node.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "what", "complaint"),
    [
        ('name = "oak"', 'nmae = "oak"', "node file", "unknown key 'nmae'; did you mean 'name'?"),
        ('name = "oak"', 'name = "fir"', "roster", "'fir' is not on the roster; expected one of"),
        ("# threads = 4", "threads = 999", "threads", "threads: 999, but there are"),
        ('superlink = "localhost:', 'superlink = "', "node file", ""),
    ],
)
def test_the_file(
    node: Path, made: tuple[Path, Address], old: str, new: str, what: str, complaint: str
) -> None:
    change(node, old, new)
    found = wrong(said(node, made))
    assert complaint in found[what] if complaint else found == {}


def test_missing_files(node: Path, made: tuple[Path, Address]) -> None:
    for name in ("roster.json", "node.key", "ca.crt"):
        (node.parent / name).unlink()
    found = wrong(said(node, made))
    assert list(found) == ["roster", "key", "ca.crt"]
    assert "put the roster there that the server has" in found["roster"]
    assert "ssh-keygen -t ecdsa -b 384" in found["key"]


def test_another_key_than_the_rosters(node: Path, made: tuple[Path, Address]) -> None:
    (node.parent / "node.key").write_bytes(make_key("oak")[0])
    found = wrong(said(node, made))
    assert list(found) == ["key"] and "the roster binds oak to SHA256:" in found["key"]


def test_another_authority(node: Path, made: tuple[Path, Address], tmp_path: Path) -> None:
    other = new_kit(tmp_path / "other")
    shutil.copy(other / "ca" / "ca.crt", node.parent / "ca.crt")
    found = wrong(said(node, made))
    assert list(found) == ["SuperLink"]
    assert "is not signed by the authority in" in found["SuperLink"]
    assert "copy ca.crt from the server's folder" in found["SuperLink"]


def test_another_host(node: Path, tmp_path: Path) -> None:
    kit = new_kit(tmp_path / "kit")
    shutil.copy(kit / "ca" / "ca.crt", node.parent / "ca.crt")
    with answering(kit, listen="127.0.0.2") as address:
        found = wrong(said(node, (kit, Address("127.0.0.2", address.port))))
    assert "the SuperLink's certificate is not for 127.0.0.2" in found["SuperLink"]


def test_nobody_answers(node: Path, made: tuple[Path, Address]) -> None:
    found = wrong(said(node, (made[0], Address("localhost", 9))))
    assert list(found) == ["SuperLink"] and "localhost:9 cannot be reached" in found["SuperLink"]
    assert "see that the SuperLink is up" in found["SuperLink"]


@pytest.mark.parametrize(("behind_s", "told"), [(60, "60 s ahead of"), (-900, "900 s behind")])
def test_clocks(node: Path, made: tuple[Path, Address], behind_s: float, told: str) -> None:
    with answering(made[0], behind_s) as address:
        found = wrong(said(node, (made[0], address)))
    number, rest = told.split(" ", 1)
    line = found["clock"]
    assert (
        abs(int(line.split()[2]) - int(number)) <= 2 and rest in line and "set the clocks" in line
    )


def test_the_machine(
    node: Path, made: tuple[Path, Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(1, 1, 2**29))
    monkeypatch.setattr(checks, "version", lambda _: "1.28.0")
    monkeypatch.setattr(checks, "requires", lambda _: ["flwr[simulation]<1.42,>=1.41", "torch"])
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    change(node, '# device = "cuda"', 'device = "cuda"')
    found = wrong(said(node, made))
    assert list(found) == ["disk", "device", "Flower", "versions"]
    assert "0.5 GiB free, expected 1 GiB at least; make room" in found["disk"]
    assert "torch sees no GPU" in found["device"]
    assert "flwr 1.28.0 is installed, expected <1.42,>=1.41" in found["Flower"]


@pytest.mark.parametrize("flower", ["", "1.2.3"])
def test_the_superlinks_flower_is_asked_for(
    node: Path, made: tuple[Path, Address], flower: str
) -> None:
    own = ".".join(checks.version("flwr").split(".")[:2])
    with answering(made[0], flower=flower) as address:
        line = said(node, (made[0], address))["versions"]
    if flower:
        assert line.startswith(
            f"WRONG versions: {address} has Flower 1.2.3, expected {own}, as here"
        )
    else:
        assert line.startswith("ok    ") and "does not show its version of Flower" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_data_that_may_not_be_read(node: Path, made: tuple[Path, Address]) -> None:
    change(node, '# dir = "data"', 'dir = "data"')
    (node.parent / "data").chmod(0)
    assert "may not be read by this user" in wrong(said(node, made))["data"]
    (node.parent / "data").chmod(0o700)


OAK = Part("fedvln", Member("oak", "seen", 3, {"houses": ["oak"]}), {"feature-size": 8})


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        (OAK, ""),
        (
            replace(OAK, member=replace(OAK.member, examples=4)),
            "oak: examples is 4 here, 3 on the roster",
        ),
        (
            replace(OAK, member=replace(OAK.member, role="unseen")),
            'role is "unseen" here, "seen" on the roster',
        ),
        (replace(OAK, facts={"feature-size": 2048}), "feature-size is 2048 here, 8 on the roster"),
        (replace(OAK, largest={"feature-size": 9.0}), "feature-size is 9.0 here, 8 on the roster"),
        (replace(OAK, largest={"feature-size": 7.0}), ""),
        (replace(OAK, member=replace(OAK.member, details={"houses": ("oak",)})), ""),
        (
            replace(OAK, member=replace(OAK.member, details={"houses": ["elm"]})),
            "houses is ['elm'] here",
        ),
    ],
)
def test_data_beside_the_roster(
    node: Path, made: tuple[Path, Address], part: Part, complaint: str
) -> None:
    assert complaint in disagreement(part, small_roster())
    assert bool(disagreement(part, small_roster())) == bool(complaint)
    found = said(node, made, part)["data"]
    assert complaint in found and found.startswith("WRONG " if complaint else "ok ")


def test_an_unbound_roster_is_well(node: Path, made: tuple[Path, Address]) -> None:
    file = Path(read_node(node).roster)
    roster = read_roster(file)
    members = tuple(replace(member, key="") for member in roster.members)
    write_roster(file, replace(roster, members=members))
    lines = said(node, made)
    assert wrong(lines) == {} and "not bound on this copy of the roster" in lines["key"]
