"""`fedsuite deploy server`: its folder, what is in its way; and all commands with Flower's own programs."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from flwr.supercore.state.alembic import utils as alembic
from sqlalchemy import create_engine, inspect

import simulations.deploy.check.registered
import simulations.deploy.serving as deployed
from fedsuite.errors import InputError, RunFailed
from simulations.deploy.check.registered import register, registered
from simulations.deploy.kit.keys import make_key
from simulations.deploy.kit.server_folder import read_server
from simulations.deploy.serving import check_place, run_server
from simulations.engines.flower import free_port
from simulations.engines.processes import living_processes, wait_until
from simulations.engines.proxies import NAMES
from tests.deployment import answering, new_kit, write_program
from tests.harness import ROOT

Call = Callable[..., tuple[int, str, str]]


def test_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = new_kit(tmp_path / "kit", free_port())
    then = "print(os.getcwd(), os.environ['FLWR_HOME'], *sys.argv[1:], flush=True); sys.exit(3)"
    program = write_program(tmp_path / "flower-superlink", 0, then)
    monkeypatch.setattr(deployed, "command_path", lambda _: str(program))
    said: list[str] = []
    folder = read_server(kit / "server")
    with pytest.raises(RunFailed, match="flower-superlink ended with exit code 3; its last lines"):
        run_server(folder, said.append)
    assert said[0].startswith(f"SuperLink at {folder.address}, folder {folder.path}")
    where, home, *words = said[1].split()
    assert (where, home) == (str(kit / "server"), str(kit / "server" / "flwr"))
    assert words == [
        *("--host", "127.0.0.1", "--port", str(folder.port)),
        *("--ssl-ca-certfile", f"{where}/ca.crt", "--ssl-certfile", f"{where}/server.pem"),
        *("--ssl-keyfile", f"{where}/server.key", "--enable-supernode-auth"),
        *("--database", f"{where}/superlink.db", "--disable-runtime-dependency-installation"),
    ]
    assert len(said) == 2


@pytest.mark.parametrize("name", ["in words", "a,b", "50%", "ünd:so'weiter;"])
def test_a_folder_that_flower_makes_no_database_from(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SuperLink would start, and answer every question with an internal error."""
    here = tmp_path / name
    shutil.copytree(
        alembic.ALEMBIC_DIR, here / "flwr", ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(alembic, "ALEMBIC_DIR", here / "flwr")
    engine = create_engine(f"sqlite:///{tmp_path / 'superlink.db'}")
    with suppress(ValueError):
        alembic.run_migrations(engine)
    if "task" in inspect(engine).get_table_names():
        check_place(here / "flwr")
    else:
        monkeypatch.setattr(deployed.flwr, "__file__", str(here / "flwr" / "__init__.py"))
        server = read_server(new_kit(tmp_path / "kit", free_port()) / "server")
        with pytest.raises(InputError, match=f"{name}.*make the Python environment in another one"):
            run_server(server, print)


def test_what_is_in_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.setattr(deployed, "PATIENCE_S", 0.1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        folder = read_server(new_kit(tmp_path / "kit", other.getsockname()[1]) / "server")
        with pytest.raises(
            InputError, match="another program listens there; stop it, or change port"
        ):
            run_server(folder, print)
    folder.database.symlink_to("nowhere.db")
    monkeypatch.setattr(deployed, "wait_until", lambda *_: True)
    with pytest.raises(InputError, match=r"superlink\.db: "):
        run_server(folder, print)
    for name, complaint in (
        ("server.key", "server.key: no such file; put it back"),
        ("server.toml", "no server.toml in it, expected a SuperLink's folder"),
    ):
        (folder.path / name).unlink()
        code, _, err = call("deploy", "server", "kit/server", engine=False)
        assert code == 2 and complaint in err


@pytest.mark.parametrize("command", ["status", "register"])
def test_a_superlink_that_is_down(
    tmp_path: Path, call: Call, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulations.deploy.check.registered, "PATIENCE_S", 0.1)
    new_kit(tmp_path / "kit", free_port())
    code, _, err = call("deploy", command, "kit/server", engine=False)
    assert code == 1 and err.count("\n") == 1
    assert "cannot be reached" in err and "start it with `fedsuite deploy server" in err


def test_what_is_no_superlink(tmp_path: Path) -> None:
    kit = new_kit(tmp_path / "kit")
    with answering(kit) as address:
        (kit / "server" / "server.toml").write_text(
            f'listen = "127.0.0.1"\nport = {address.port}\n'
        )
        folder = read_server(kit / "server")
        with pytest.raises(InputError, match=r"the SuperLink refuses this: .*501"):
            list(register(folder, folder.keys))


# --- with Flower ----------------------------------------------------------------------------------


@contextmanager
def running(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`fedsuite deploy WORDS` in the background."""
    settings = {"PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "simulations.commands.cli", "deploy", *words],
            env={**os.environ, **settings}, stdout=file, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(40)
            process.kill()
            process.wait()


def statuses(server: Path) -> dict[str, str]:
    try:
        return {node.name: node.status for node in registered(read_server(server))}
    except RunFailed:
        return {}


def child(parent: int) -> int:
    """The Flower program that a command runs: its child that is no guard, and not what warm programs are forked from."""
    for process in living_processes():
        words = (
            Path(f"/proc/{process.pid}/cmdline").read_bytes() if process.parent == parent else b""
        )
        if b"flower-super" in words and b"prefork_server" not in words:
            return process.pid
    return 0


def remember(server: Path, seconds: float) -> None:
    """For how long from now the SuperLink takes nodes that were killed for alive: a minute, where nobody sets it."""
    with closing(sqlite3.connect(server / "superlink.db", timeout=30)) as database, database:
        changed = "UPDATE node SET online_until = ? WHERE status = 'online'"
        assert database.execute(changed, (time.time() + seconds,)).rowcount == 1


@pytest.mark.slow
def test_with_flower(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registered once; connected over TLS; a killed SuperLink and a killed node come back. All behind a dead proxy."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    kit = new_kit(tmp_path / "kit", free_port())
    server, node = kit / "server", str(kit / "nodes" / "oak" / "node.toml")
    limit_s = 120
    with running(tmp_path / "server.log", "server", str(server)) as first:
        assert wait_until(lambda: _up(server), limit_s, 0.2), (tmp_path / "server.log").read_text()
        code, out, err = call("deploy", "register", "kit/server", engine=False)
        assert code == 0 and out.count(": registered, key SHA256:") == 3, (out, err)
        key = kit / "nodes" / "oak" / "node.key.pub"
        code, out, err = call("deploy", "register", "kit/server", str(key), engine=False)
        assert code == 0 and out.startswith("oak: is registered already (registered), key"), err
        with running(tmp_path / "node.log", "node", node) as oak:
            assert wait_until(lambda: statuses(server).get("oak") == "online", limit_s, 0.3)
            code, out, _ = call("deploy", "status", "kit/server", engine=False)
            assert code == 0 and out.count("online") == 1 and out.count("registered") >= 2
            code, out, _ = call("deploy", "check", node, engine=False)
            assert code == 0 and out.count("ok    ") == 13, out
            assert (server / "superlink.db").stat().st_mode & 0o077 == 0
            os.kill(child(oak.pid), signal.SIGKILL)
            assert oak.wait(60) == 1
            assert (
                "was killed by signal 9 after it had connected"
                in (tmp_path / "node.log").read_text()
            )
        os.kill(child(first.pid), signal.SIGKILL)
        assert first.wait(60) == 1
    said = tmp_path / "node2.log"
    with running(tmp_path / "again.log", "server", str(server)):
        assert wait_until(lambda: len(statuses(server)) == 3, limit_s, 0.3)
        remember(server, 600)
        with running(said, "node", node):
            refused = "its earlier self is not known to be gone yet"
            assert wait_until(lambda: refused in said.read_text(), limit_s, 0.3), said.read_text()
            remember(server, 0)
            assert wait_until(lambda: "is connected to" in said.read_text(), limit_s, 0.3)
            assert wait_until(lambda: statuses(server).get("oak") == "online", 20, 0.3)
        assert statuses(server)["oak"] == "offline"  # stopped, not killed: Flower knows at once
        check_revoking(kit, call, tmp_path / "node3.log", limit_s)
    shutil.rmtree(kit)


def check_revoking(kit: Path, call: Call, log: Path, limit_s: float) -> None:
    """A node that is online when it is revoked goes, and never comes back with its key; another key is let in."""
    server, node = kit / "server", kit / "nodes" / "elm"
    with running(log, "node", str(node / "node.toml")) as elm:
        assert wait_until(lambda: statuses(server).get("elm") == "online", limit_s, 0.3)
        code, out, err = call("deploy", "revoke", "kit/server", "elm", engine=False)
        assert code == 0 and "elm: unregistered (online), key SHA256:" in out, err
        assert "Flower never takes this key again" in out
        assert "elm is still on it, and runs with this roster wait for elm" in out
        assert "elm" not in statuses(server)
        assert elm.wait(limit_s) == 1, log.read_text(encoding="utf-8")
    assert [k.stem for k in read_server(server).keys] == ["ash", "oak"]
    aside = server / "revoked" / "elm.pub"
    assert aside.read_bytes() == (node / "node.key.pub").read_bytes()
    code, out, _ = call("deploy", "revoke", "kit/server", "elm", engine=False)
    assert code == 0 and "elm: was revoked already" in out
    # What is known is skipped, what is revoked is said at the end, and new keys between them are registered.
    private, public = make_key("elm")
    (node / "new.pub").write_bytes(public)
    keys = [str(f) for f in (server / "keys" / "oak.pub", aside, node / "new.pub")]
    code, out, err = call("deploy", "register", "kit/server", *keys, engine=False)
    assert code == 2 and err.count("\n") == 1 and "revoked/elm.pub): revoked, and Flower" in err
    assert "oak: is registered already" in out and "elm: registered, key SHA256:" in out
    (node / "node.key").write_bytes(private)
    with running(log, "node", str(node / "node.toml")):
        assert wait_until(lambda: statuses(server).get("elm") == "online", limit_s, 0.3)
    code, _, err = call("deploy", "revoke", "kit/server", "yew", engine=False)
    assert code == 2 and "yew: neither " in err and "registered are: ash, oak, elm" in err


def _up(server: Path) -> bool:
    try:
        registered(read_server(server))
    except RunFailed:
        return False
    return True
