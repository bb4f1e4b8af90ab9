"""A running SuperLink, as Flower's config.toml names it, and what is wrong where it cannot be used."""

import os
import ssl
import tomllib
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, InvalidURL
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

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
            secure = not self.table.get("insecure")
            try:
                proxy = asked_for(urlsplit(f"//{self.address}").hostname or "", secure)
                why = self._diagnosis(secure, direct=not proxy) or complaint(answer)
            except ValueError as error:
                proxy, why = "", self._explained(error)
            raise InputError(f"--connection {self.said}: {'; '.join(filter(None, (why, proxy)))}")

    def _diagnosis(self, secure: bool, direct: bool) -> str:
        """What keeps the SuperLink from being reached, as far as that can be told; direct: without a proxy."""
        root = self._authority
        if root and not os.access(root, os.R_OK):
            return f"root-certificates is {root}, which cannot be read; correct it in {CONFIG} of Flower's folder"
        try:
            trusted = ssl.create_default_context(cafile=root)
        except ssl.SSLError:
            return f"root-certificates is {root}, which is no certificate in PEM form; give the SuperLink's ca.crt"
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({} if direct else None),
            urllib.request.HTTPSHandler(context=trusted),
        )
        place = f"http{'s' if secure else ''}://{self.address}"
        try:
            opener.open(f"{place}/health", timeout=PROBE_LIMIT_S).close()
        except InvalidURL as error:
            return self._explained(error)
        except (HTTPError, HTTPException):
            return ""  # somebody answers there
        except OSError as error:
            return self._explained(getattr(error, "reason", error))
        return ""

    @property
    def _authority(self) -> Path | None:
        root = self.table.get("root-certificates")
        return (self.commands.folder or Path()) / str(root) if root else None

    def _explained(self, error: Exception | str) -> str:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"the certificate of {self.address} does not hold ({error.verify_message}); give the SuperLink's own CA "
                "as root-certificates, and the address that stands in the certificate"
            )
        if isinstance(error, ssl.SSLError):
            return f"{self.address} does not speak TLS; start the SuperLink with a certificate, or set insecure = true"
        return f"no SuperLink answers at {self.address} ({error}); start it, or correct the address"


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
