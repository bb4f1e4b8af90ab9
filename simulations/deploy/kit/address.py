"""HOST:PORT of a SuperLink: names and IP addresses, as nodes, certificates and Flower take them."""

import ipaddress
import re
from dataclasses import dataclass

from fedsuite.errors import InputError
from fedsuite.settings.values import shown

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True)
class Address:
    """host: a name, or an IP address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can mean it."""
        if self.host == "localhost":
            return True
        return is_ip(self.host) and ipaddress.ip_address(self.host).is_loopback


def read_address(text: str, where: str) -> Address:
    """HOST:PORT, an IPv6 address in brackets; InputError, opened by `where`, for anything else."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and port.isascii()):
        raise InputError(
            f"{where}: expected HOST:PORT such as fed.example:9092, got {shown(text)}; correct it"
        )
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return Address(checked_host(bare, where), checked_port(int(port), where))


def checked_host(text: str, where: str) -> str:
    """A host's name or IP address; InputError for anything else."""
    last = text.rpartition(".")[2]
    named = len(text) <= 253 and _NAME.fullmatch(text) and not last.isdecimal()
    if not (named or is_ip(text)):
        raise InputError(
            f"{where}: expected a host's name or its IP address, got {shown(text)}; write it without http:// and spaces"
        )
    return text


def checked_port(port: int, where: str) -> int:
    if not 1 <= port <= 65535:
        raise InputError(
            f"{where}: expected a port from 1 to 65535, got {port}; choose another one"
        )
    return port


def is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
