"""A running SuperLink, as Flower's config.toml names it, and what is wrong where it cannot be used."""

import os
import socket
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, one_line
from fedsuite.storage.files import full_path
from simulations.engines.flower import CONNECTION, Commands, complaint
from simulations.engines.proxies import asked_for, directly

CONFIG = "config.toml"
PROBE_LIMIT_S = 5.0


@dataclass(frozen=True)
class Connection:
    """said: as the user named it; commands: `flwr` for it; table: its keys in config.toml."""

    said: str
    commands: Commands
    table: Mapping[str, Any]

    @property
    def address(self) -> str:
        return str(self.table.get("address", ""))

    def check(self) -> None:
        """InputError, with the cure, unless the SuperLink answers."""
        answer = self.commands.flwr("ls", self.commands.connection, "--limit", "1")
        if "runs" not in answer:
            raise InputError(f"--connection {self.said}: {self._diagnosis() or complaint(answer)}")

    def _diagnosis(self) -> str:
        """What keeps the SuperLink from being reached, as far as that can be told."""
        host, _, port = self.address.rpartition(":")
        root = self._authority
        if root and not os.access(root, os.R_OK):
            return f"root-certificates is {root}, which cannot be read; correct it in {CONFIG} of Flower's folder"
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PROBE_LIMIT_S) as plain:
                if not self.table.get("insecure"):
                    self._verify(plain, host)
        except ssl.SSLCertVerificationError as error:
            return (
                f"the certificate of {self.address} does not hold ({error.verify_message}); give the SuperLink's own CA "
                "as root-certificates, and the address that stands in the certificate"
            )
        except ssl.SSLError:
            return f"{self.address} does not speak TLS; start the SuperLink with a certificate, or set insecure = true"
        except (OSError, ValueError) as error:
            return f"no SuperLink answers at {self.address} ({error}); start it, or correct the address"
        proxy = asked_for(host.strip("[]"), not self.table.get("insecure"))
        return f"the SuperLink at {self.address} is there, but {proxy}" if proxy else ""

    @property
    def _authority(self) -> Path | None:
        root = self.table.get("root-certificates")
        return (self.commands.folder or Path()) / str(root) if root else None

    def _verify(self, plain: socket.socket, host: str) -> None:
        trusted = ssl.create_default_context(cafile=self._authority)
        with trusted.wrap_socket(plain, server_hostname=host):
            pass


def connection_of(said: str) -> Connection:
    """The connection of that name in Flower's config.toml, or the one of a server folder; InputError if there is none."""
    if not said:
        raise InputError(
            "--engine deploy: needs --connection, a connection of Flower's config.toml or a server folder"
        )
    server = full_path(said, "--connection")
    named = (server / "flwr" / CONFIG).is_file()
    name = CONNECTION if named else said
    home = server / "flwr" if named else _flower_home()
    known = _connections(home / CONFIG)
    if name not in known:
        there = ", ".join(known) or "none"
        raise InputError(
            f"--connection {said}: {home / CONFIG} has no [superlink.{name}], it has: {there}; name one of these, or a "
            f"server folder with flwr/{CONFIG}"
        )
    address = str(known[name].get("address", ""))
    if not address or address.startswith(":"):
        raise InputError(
            f"--connection {said}: its address is {address or 'empty'}, expected HOST:PORT of a running SuperLink; "
            "simulate with --engine ray"
        )
    environment = {**os.environ, **directly(), "FLWR_HOME": str(home)}
    environment["FLWR_DISABLE_UPDATE_CHECK"] = "1"
    return Connection(said, Commands(name, environment, server if named else None), known[name])


def _flower_home() -> Path:
    return full_path(os.environ.get("FLWR_HOME") or "~/.flwr", "FLWR_HOME")


def _connections(file: Path) -> dict[str, dict[str, Any]]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("superlink", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file}: cannot be read as TOML ({one_line(str(error), 200)}); correct it"
        ) from None
    return {name: keys for name, keys in table.items() if isinstance(keys, dict)}
