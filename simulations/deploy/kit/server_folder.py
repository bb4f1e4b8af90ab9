"""The SuperLink's folder: what `fedsuite deploy init` writes for it, and where it listens.

server.toml, ca.crt, server.pem, server.key, flwr/config.toml (Flower's home), keys/ (public keys of the nodes), runs/; later
roster.json, superlink.db and now/ (how runs stand, for `fedsuite deploy status`).
"""

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fedsuite.errors import InputError, one_line
from fedsuite.roster.members import ROSTER
from fedsuite.settings.config import read_config, setting
from fedsuite.storage.files import telling, write_atomically
from simulations.deploy.kit.address import Address, checked_port
from simulations.engines.flower import CONNECTION

SETTINGS = "server.toml"


@dataclass(frozen=True)
class _Listening:
    """The keys of server.toml."""

    listen: str = setting("0.0.0.0", "address of this machine that the SuperLink listens on")
    port: int = setting(9092, "its port", ge=1, le=65535)
    metrics: str = setting("", "folder for Prometheus' textfiles; empty: none are written")


@dataclass(frozen=True)
class ServerFolder:
    """Paths, and where it listens; metrics: where Prometheus' textfiles go, None for nowhere."""

    path: Path
    listen: str
    port: int
    metrics: Path | None = None

    @property
    def address(self) -> Address:
        """Where it is reached on this machine."""
        return Address(reached(self.listen), self.port)

    @property
    def authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def home(self) -> Path:
        """Flower's."""
        return self.path / "flwr"

    @property
    def database(self) -> Path:
        return self.path / "superlink.db"

    @property
    def now(self) -> Path:
        return self.path / "now"

    @property
    def roster(self) -> Path:
        return self.path / ROSTER

    @property
    def keys(self) -> list[Path]:
        """Public keys of the nodes that came with the folder."""
        return sorted((self.path / "keys").glob("*.pub"))

    def superlink_arguments(self) -> list[str]:
        """Of `flower-superlink`."""
        return [
            *("--host", self.listen, "--port", str(self.port)),
            *("--ssl-ca-certfile", str(self.authority)),
            *("--ssl-certfile", str(self.path / "server.pem")),
            *("--ssl-keyfile", str(self.path / "server.key")),
            *("--enable-supernode-auth", "--database", str(self.database)),
            "--disable-runtime-dependency-installation",
        ]


def read_server(path: Path) -> ServerFolder:
    """The folder at `path`; InputError if it is none."""
    file = path / SETTINGS
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no {SETTINGS} in it, expected a SuperLink's folder; `fedsuite deploy init` makes one"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        why = one_line(str(error), 200)
        raise InputError(f"{file}: cannot be read as TOML ({why}); correct it") from None
    own = read_config(_Listening, table, str(file))
    for name in ("ca.crt", "server.pem", "server.key"):
        if not (path / name).is_file():
            raise InputError(f"{path / name}: no such file; put it back, or make a new folder")
    metrics = path.absolute() / own.metrics if own.metrics else None
    if metrics and not metrics.is_dir():
        raise InputError(
            f"{file}: metrics is {metrics}, which is no folder; make it, or leave metrics empty"
        )
    return ServerFolder(path.absolute(), own.listen, own.port, metrics)


def settings_text(listen: str, port: int) -> str:
    """server.toml."""
    checked_port(port, "--port")
    return (
        "# Where the SuperLink listens. 0.0.0.0: on all addresses of this machine; 127.0.0.1: for this machine alone.\n"
        f"listen = {json.dumps(listen)}\nport = {port}\n"
        '# A folder for numbers on runs that go on, as node_exporter\'s textfile collector reads them; "": none.\n'
        'metrics = ""\n'
    )


def reached(listen: str) -> str:
    """The address to ask, on the machine of a server that listens there."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)


def connection_text(path: Path, address: Address) -> str:
    """Flower's config.toml for the folder that will lie at `path`: `flwr run . fedsuite`."""
    return (
        f"# The connection of `flwr run . {CONNECTION}`. root-certificates is a full path, which `fedsuite deploy server`\n"
        "# corrects after a move.\n"
        f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\naddress = "{address}"\n'
        f"root-certificates = {json.dumps(str(path / 'ca.crt'), ensure_ascii=False)}\n"
    )


def placed(server: ServerFolder) -> str:
    """Let Flower's config.toml trust this folder's authority where the one that it names cannot be read, as after a move or
    in a container. A line on what was changed, or is to be changed by hand; "" where all is well.
    """
    file = server.home / "config.toml"
    with telling(file):
        data = file.read_bytes() if file.is_file() else b""
    try:
        text = data.decode()
        named = str(tomllib.loads(text)["superlink"][CONNECTION]["root-certificates"])
        there = os.access(named, os.R_OK)
    except (ValueError, KeyError, TypeError, RecursionError):
        return (
            f"{file}: names no connection {CONNECTION} with root-certificates; `flwr run` needs one"
        )
    if Path(named).absolute() == server.authority:
        return ""
    was, is_now = (json.dumps(str(p), ensure_ascii=False) for p in (named, server.authority))
    if there or text.count(was) != 1:
        return f"{file}: root-certificates is {named}; for `flwr run` on this machine set it to {server.authority}"
    with telling(file):
        write_atomically(file, text.replace(was, is_now).encode())
    return f"{file}: root-certificates was {named}, which cannot be read here, and is {server.authority} now"
