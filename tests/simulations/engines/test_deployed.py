"""Runs on a running SuperLink: followed in their folder, stopped where they must be, failures told in one line."""

import dataclasses
import datetime
import json
import os
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from rich.console import Console

import tests.toy
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import TIMINGS, HistoryWriter, Kind, event
from fedsuite.roster.members import Member, Roster, write_roster
from fedsuite.runs.folder import RunFolder
from simulations.app.message_costs import StepCosts
from simulations.engines.inprocess import run_inprocess
from simulations.engines.nodes import deployed
from simulations.engines.nodes.connection import Connection, connection_of
from simulations.engines.nodes.deployed import attach_deployed, run_deployed
from simulations.engines.proxies import NAMES, asked_for
from simulations.experiments import attaching
from simulations.experiments.progress import RunDisplay
from tests.harness import write_toml

Server = Callable[[RunFolder], None]


class FakeFlower:
    """In place of Commands. `server` runs in a thread from `flwr run` on; answers: what Flower says of the run, the last
    of them for ever."""

    connection, folder = "fake", None

    def __init__(self, run: RunFolder, server: Server, *answers: tuple[str, str]) -> None:
        self.run, self.server, self.answers = run, server, list(answers)
        self.stopped: list[str] = []
        self.rows: list[Mapping[str, Any]] = []
        self.error: Exception | None = None

    def submit(self, place: Path, run_config: Mapping[str, Any], *options: str) -> str:
        threading.Thread(target=self.server, args=[self.run], daemon=True).start()
        return "7"

    def status(self, run_id: str) -> tuple[str, str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def stop(self, run_id: str) -> None:
        self.stopped.append(run_id)

    def flwr(self, *arguments: str) -> dict[str, str]:
        return {"error-message": "unavailable"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    limits = {"BEGIN_LIMIT_S": 0.6, "GONE_LIMIT_S": 0.6, "ASK_SOON_S": 0.1, "POLL_S": 0.02}
    for name, seconds in limits.items():
        monkeypatch.setattr(deployed, name, seconds)
    (tmp_path / "run").mkdir()
    return RunFolder(tmp_path / "run")


def play(folder: RunFolder, server: Server, *answers: tuple[str, str]) -> FakeFlower:
    flower = FakeFlower(folder, server, *answers)
    try:
        run_deployed({}, folder, Connection("fake", flower, {}), flower.rows.append)
    except (InputError, RunFailed) as error:
        flower.error = error
    return flower


def ends(status: str, error: str = "", kind: str = "") -> Server:
    def server(folder: RunFolder) -> None:
        with folder.locked(5.0):
            folder.begin()
            (folder.path / "timings.jsonl").write_text(json.dumps({"kind": "ready"}) + "\n")
            time.sleep(0.3)
            folder.end(status, error, kind)

    return server


RUNNING = ("running", "")


def test_a_run_that_completes_is_followed(folder: RunFolder) -> None:
    flower = play(folder, ends("completed"), RUNNING)
    assert flower.error is None
    assert flower.rows == [{"kind": "ready"}] and flower.stopped == []


def test_a_lost_node_is_told_and_told_again_to_whoever_resumes(folder: RunFolder) -> None:
    """The lines of the rounds that are kept are followed once more."""
    lost, back = (
        event(1, kind) | {"client": "oak", "reason": "gone"}
        for kind in (Kind.LOST, Kind.SENT_AGAIN)
    )

    def server(folder: RunFolder) -> None:
        with folder.locked(5.0):
            folder.begin()
            HistoryWriter(folder.path / TIMINGS).append([lost, back])
            time.sleep(0.1)
            folder.end("completed")

    for times in (1, 2):
        out = StringIO()
        with RunDisplay(Console(file=out)) as display:
            connection = Connection("fake", FakeFlower(folder, server, RUNNING), {})
            run_deployed({}, folder, connection, display.show)
        assert out.getvalue() == times * (
            "round 1: oak is lost (gone); waiting for it to come back\n"
            "round 1: oak is back and was sent its task again\n"
        )


@pytest.mark.parametrize(
    ("server", "kind", "complaint"),
    [
        (ends("failed", "roster: bad", "input"), InputError, "roster: bad"),
        (ends("failed", "oak is lost", "run"), RunFailed, "oak is lost"),
        (ends("failed", "KeyError: 3", "bug"), RunFailed, "KeyError: 3 (traceback: "),
        (ends("stopped", "stopped"), RunFailed, "was stopped by somebody else, at the SuperLink"),
    ],
)
def test_the_servers_own_word_counts(
    folder: RunFolder, server: Server, kind: type[Exception], complaint: str
) -> None:
    flower = play(folder, server, RUNNING)
    assert type(flower.error) is kind and complaint in str(flower.error)
    assert flower.stopped == []


def test_without_a_word_flower_is_asked(folder: RunFolder) -> None:
    failed = ("finished:failed", "ServerApp raised")
    flower = play(folder, lambda _: None, RUNNING, failed)
    assert str(flower.error).endswith("Flower reports finished:failed: ServerApp raised")
    assert folder.status() == {}


def test_a_run_that_lost_its_superlink_says_how_to_go_on(folder: RunFolder) -> None:
    failed = ("finished:failed", "no heartbeat")
    told = str(play(folder, RunFolder.begin, RUNNING, failed).error)
    assert told.endswith(
        f"finished:failed: no heartbeat; when the SuperLink is up, continue with --resume {folder.path}"
    )


def test_a_server_that_was_killed_is_noticed(folder: RunFolder) -> None:
    flower = play(folder, RunFolder.begin, RUNNING)
    assert "no process works on the run any more (Flower reports running)" in str(flower.error)
    assert flower.stopped == ["7"] and folder.status()["status"] == "failed"


def test_a_folder_that_nobody_writes_to_is_told(folder: RunFolder) -> None:
    flower = play(folder, lambda _: None, RUNNING)
    assert "has not begun to write here within 0.6 s (Flower reports running)" in str(flower.error)
    assert "share its results-dir" in str(flower.error) and flower.stopped == ["7"]


def test_a_run_that_nobody_begins_is_told(folder: RunFolder) -> None:
    flower = play(folder, lambda _: None, ("pending", "N/A"))
    assert "(Flower reports pending: N/A), so the run was stopped" in str(flower.error)
    assert str(flower.error).endswith("start `fedsuite deploy server` again")


def watched(folder: RunFolder, *answers: tuple[str, str]) -> FakeFlower:
    """What somebody sees who only watches."""
    flower = FakeFlower(folder, lambda _: None, *answers)
    try:
        attach_deployed(folder, Connection("fake", flower, {}), "7", flower.rows.append)
    except (InputError, RunFailed) as error:
        flower.error = error
    return flower


def test_whoever_attaches_sees_all_of_the_run_and_how_it_ended(folder: RunFolder) -> None:
    thread = threading.Thread(target=ends("failed", "oak is lost", "run"), args=[folder])
    thread.start()
    while not (folder.path / TIMINGS).is_file():
        time.sleep(0.01)
    flower = watched(folder, RUNNING)
    thread.join()
    assert flower.rows == [{"kind": "ready"}] and flower.stopped == []
    assert isinstance(flower.error, RunFailed) and str(flower.error) == "oak is lost"


def test_whoever_attaches_to_a_dead_run_changes_nothing(folder: RunFolder) -> None:
    folder.begin()
    before = folder.status_file.read_bytes()
    flower = watched(folder, RUNNING)
    assert "no process works on the run any more (Flower reports running)" in str(flower.error)
    assert flower.stopped == [] and folder.status_file.read_bytes() == before


def test_ctrl_c_of_whoever_attached_leaves_the_run(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.begin({"engine": "flower", "flower-run": "7"})
    flower = FakeFlower(folder, lambda _: None, RUNNING)
    monkeypatch.setattr(Connection, "check", lambda _: None)
    monkeypatch.setattr(attaching, "connection_of", lambda s: Connection(s, flower, {}))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(typer.Exit) as caught:
        attaching.attach(str(folder.path), "kit/server")
    assert caught.value.exit_code == 130 and flower.stopped == []
    assert folder.status()["status"] == "running"
    assert "no longer watched; the run goes on, watch it with: fedsuite run --attach" in (
        capsys.readouterr().out.replace("\n", " ")
    )


def test_a_run_of_no_superlink_cannot_be_attached_to(folder: RunFolder) -> None:
    folder.begin({"engine": "inprocess"})
    with pytest.raises(InputError, match="no run of a SuperLink; look at any run with `fedsuite"):
        attaching.attach(str(folder.path), "kit/server")


def test_ctrl_c_stops_the_run(folder: RunFolder) -> None:
    def server(folder: RunFolder) -> None:
        with folder.locked(5.0):
            folder.begin()
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
            folder.end("failed", "SystemExit: 0", "bug")  # what an ended server may say

    flower = FakeFlower(folder, server, RUNNING)
    with pytest.raises(KeyboardInterrupt):
        run_deployed({}, folder, Connection("fake", flower, {}))
    assert flower.stopped == ["7"]
    assert folder.status()["status"] == "stopped" and not folder.is_being_written()


def test_a_signal_while_the_run_is_submitted_is_not_lost(folder: RunFolder) -> None:
    class Interrupted(FakeFlower):
        def submit(self, place: Path, run_config: Mapping[str, Any], *options: str) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)
            return "8"

    flower = Interrupted(folder, lambda _: None, RUNNING)
    with pytest.raises(KeyboardInterrupt):
        run_deployed({}, folder, Connection("fake", flower, {}))
    assert flower.stopped == ["8"] and signal.getsignal(signal.SIGINT) == signal.default_int_handler


# --- connections ---------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / "config.toml").write_text(
        '[superlink]\ndefault = "local"\n[superlink.local]\naddress = ":local:"\n'
        '[superlink.near]\naddress = "127.0.0.1:1"\ninsecure = true\n'
    )
    return tmp_path


def test_connections_are_those_of_flowers_file(home: Path) -> None:
    found = connection_of("near")
    assert found.address == "127.0.0.1:1"
    assert found.commands.environment["FLWR_HOME"] == str(home / "flower")


def test_a_server_folder_is_a_connection(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "server" / "flwr").mkdir(parents=True)
    text = '[superlink.fedsuite]\naddress = "h:9092"\nroot-certificates = "/ca.crt"\n'
    (home / "server" / "flwr" / "config.toml").write_text(text)
    monkeypatch.chdir(home)
    found = connection_of("server")
    assert (found.commands.connection, found.address) == ("fedsuite", "h:9092")
    assert found.commands.environment["FLWR_HOME"] == str(home / "server" / "flwr")


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("", "--engine deploy: needs --connection"),
        ("far", r"has no \[superlink.far\], it has: local, near; name one of these"),
        ("local", "its address is :local:, expected HOST:PORT .*; simulate with --engine ray"),
    ],
)
def test_connections_that_there_are_not(home: Path, said: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        connection_of(said)


def self_signed(folder: Path, name: str) -> Path:
    """A certificate and its key, in one file, for the host `name`."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file = folder / f"{name}.pem"
    file.write_bytes(key.private_bytes(pem, *plain) + made.public_bytes(pem))
    return file


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def serve_once(server: socket.socket, context: ssl.SSLContext | None, tunnel: bytes = b"") -> None:
    """One connection. tunnel: how a proxy's CONNECT is answered, before what comes through it."""

    def answer() -> None:
        plain, _ = server.accept()
        with plain:
            try:
                if tunnel:
                    plain.recv(4096)
                    plain.sendall(tunnel)
                if context:
                    context.wrap_socket(plain, server_side=True).close()
                else:
                    plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            except OSError:
                return

    threading.Thread(target=answer, daemon=True).start()


def checked(server: socket.socket, ca: Path | None, host: str = "localhost") -> str:
    """What is said of a connection to `server`, of which Flower has said only that it does not work."""
    table = {"address": f"{host}:{server.getsockname()[1]}"}
    commands = FakeFlower(RunFolder(Path()), lambda _: None)
    own = {"root-certificates": str(ca)} if ca else {}
    with pytest.raises(InputError) as caught:
        Connection("c", commands, {**table, **own}).check()
    return str(caught.value)


def test_a_wrong_authority_is_told(listener: socket.socket, tmp_path: Path) -> None:
    own, other = self_signed(tmp_path, "localhost"), self_signed(tmp_path, "elsewhere")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    serve_once(listener, context)
    assert "--connection c: the certificate of localhost:" in checked(listener, other)
    serve_once(listener, context)
    assert checked(listener, own) == "--connection c: unavailable"  # Flower's own word


@pytest.mark.parametrize(
    ("authority", "answer", "told"),
    [
        ("far.example", "200 OK", "unavailable"),  # Flower's own word
        ("elsewhere", "200 OK", "the certificate of far.example:{port} does not hold"),
        ("far.example", "403 Forbidden", "no SuperLink answers at far.example:{port}"),
    ],
)
def test_a_superlink_is_looked_for_through_the_proxy(
    listener: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    authority: str,
    answer: str,
    told: str,
) -> None:
    """Only the proxy knows where far.example is."""
    known = {host: self_signed(tmp_path, host) for host in ("far.example", "elsewhere")}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(known["far.example"])
    serve_once(listener, context, f"HTTP/1.1 {answer}\r\n\r\n".encode())
    place = f"127.0.0.1:{listener.getsockname()[1]}"
    monkeypatch.setenv("https_proxy", f"http://me:secret@{place}")
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    said = checked(listener, known[authority], "far.example")
    port = listener.getsockname()[1]
    assert said.startswith(f"--connection c: {told.format(port=port)}")
    assert said.endswith(f"; {asked_for('far.example')}") and f"the proxy {place} is asked" in said
    assert answer == "200 OK" or answer in said


def test_this_machine_is_looked_for_without_the_proxy(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    serve_once(listener, None)
    said = checked(listener, None)
    assert "does not speak TLS" in said and "proxy" not in said


def test_an_authority_that_is_not_there_is_told(listener: socket.socket, tmp_path: Path) -> None:
    said = checked(listener, tmp_path / "ca.crt")
    assert f"root-certificates is {tmp_path}/ca.crt, which cannot be read; correct it in" in said


def test_an_authority_that_is_none_is_told(listener: socket.socket, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("none", encoding="utf-8")
    said = checked(listener, tmp_path / "ca.crt")
    assert f"root-certificates is {tmp_path}/ca.crt, which is no certificate in PEM form" in said


@pytest.mark.parametrize("address", ["localhost:port", "[::1:9092", "local host:9092"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(InputError, match=r"no SuperLink answers at .*; start it, or correct"):
        Connection("c", FakeFlower(RunFolder(Path()), lambda _: None), {"address": address}).check()


def test_a_superlink_without_tls_is_told(listener: socket.socket) -> None:
    serve_once(listener, None)
    assert "does not speak TLS; start the SuperLink with a certificate" in checked(listener, None)


def test_an_address_where_nobody_answers_is_told(listener: socket.socket) -> None:
    listener.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        said = checked(free, None)
    assert "no SuperLink answers at localhost:" in said and "start it, or correct" in said


# --- the command line ----------------------------------------------------------------------------


def test_the_command_line_refuses_what_cannot_work(
    home: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(home)
    code, _, err = call("run", "toy.toml", "--engine", "deploy", engine=False)
    assert code == 2 and "--engine deploy: needs --connection" in err
    code, _, err = call("run", "toy.toml", "--connection", "near")
    assert code == 2 and "only --engine deploy uses a running SuperLink" in err
    monkeypatch.setattr(Connection, "check", lambda self: None)
    deploy = ["run", "toy.toml", "--engine", "deploy", "--connection", "near"]
    code, _, err = call(*deploy, engine=False)
    assert code == 2 and "roster: empty, but real nodes have the data" in err
    code, _, err = call(*deploy, "--set", "roster=none.json", engine=False)
    assert code == 2 and "none.json: no such roster" in err
    assert not (home / "runs").exists()


@pytest.fixture
def deployed_here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`--engine deploy` without Flower: the toy runs in this process, on a server that may open no data."""

    def refused(*_: Any) -> None:
        raise AssertionError("the data were opened")

    toy = dataclasses.replace(tests.toy.SYSTEM, prepare=refused, draw=refused, costs=costly)
    monkeypatch.setattr(tests.toy, "SYSTEM", toy)
    monkeypatch.setattr(Connection, "check", lambda self: None)
    monkeypatch.setattr(
        deployed, "run_deployed", lambda config, folder, connection, show: run_inprocess(config)
    )
    sites = (Member(f"site-{i}", "site", 20 + i) for i in range(3))
    write_roster(home / "roster.json", Roster(tuple(sites)))
    return home


def costly(settings: Any, roster: Roster | None) -> StepCosts:
    assert roster is not None and len(roster) == 3
    return StepCosts(lambda _: 500.0 if settings.num_rounds == 2 else 1.0, cure="fewer rounds")


def test_variants_are_run_resumed_and_compared_without_data(deployed_here: Path, call: Any) -> None:
    text = 'num-rounds = 1\nroster = "roster.json"\n[variants.a]\n[variants.b]\nnum-rounds = 2\nfault = "raise"\n'
    (deployed_here / "toy.toml").write_text('system = "tests.toy:SYSTEM"\n' + text)
    deploy = ["--engine", "deploy", "--connection", "near"]
    code, out, err = call("run", "toy.toml", *deploy, engine=False)
    assert code == 1 and "b: 1,004 messages one after another, at 6.1 s each 1.7 h" in out
    assert f"--resume {deployed_here / 'runs' / 'toy'} --engine deploy --connection near" in err
    assert RunFolder(deployed_here / "runs" / "toy" / "a").is_completed()
    fixed = ["--resume", "toy", "--set", "fault="]
    code, out, err = call("run", "toy.toml", *fixed, *deploy, engine=False)
    assert code == 2, (out, err)  # the fault is among what a result depends on
    again = ["--overwrite", "--only", "b", "--set", "fault="]
    code, out, err = call("run", "toy.toml", *again, *deploy, engine=False)
    assert code == 0, err
    stored = json.loads((deployed_here / "runs" / "toy" / "b" / "config.json").read_text())
    assert stored["roster"] == str(deployed_here / "roster.json")
    assert (deployed_here / "runs" / "toy" / "results.md").is_file()
