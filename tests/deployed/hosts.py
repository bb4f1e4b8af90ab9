"""A deployment whose members are hosts of their own: network namespaces behind one switch, which root alone can make.

A line can be cut, so that packets vanish and nobody is told, as where a cable is pulled behind a switch or a car leaves the
reach of its cell. It can be cut for what arrives alone, be slow, or take its time and lose packets; and a host can get
another address.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.deployed import far_line
from tests.deployed.site import Site

NETWORK = "10.99.0"
SWITCH, SERVER = "switch", "server"


class Hosts(Site):
    """The server is host 1, at 10.99.0.1; the others follow in the roster's order."""

    host = f"{NETWORK}.1"

    def command(self, name: str, *arguments: str) -> list[str]:
        """Inside the member's host; the run's is the server's."""
        words = super().command(name, *arguments)
        place = {"": "", "run": SERVER}.get(name, name)
        return ["ip", "netns", "exec", space(place), *words] if place else words


def missing() -> str:
    """Why this process cannot make hosts, "" if it can."""
    if os.geteuid() != 0:
        return "hosts of their own need root"
    if absent := [name for name in ("ip", "tc") if not shutil.which(name)]:
        return f"not installed: {', '.join(absent)} (Debian: iproute2)"
    made = subprocess.run(["ip", "netns", "add", space("trial")], check=False, capture_output=True)
    if made.returncode:
        return f"this machine makes no network namespaces: {made.stderr.decode().strip()}"
    ip("netns", "del", space("trial"))
    return ""


@contextmanager
def network(names: Sequence[str]) -> Iterator[None]:
    """Hosts of the server and of these members, until the end of this context."""
    every = [SWITCH, SERVER, *names]
    try:
        for name in every:
            ip("netns", "add", space(name))
            inside(name, "link", "set", "lo", "up")
        inside(SWITCH, "link", "add", "bridge", "type", "bridge")
        inside(SWITCH, "link", "set", "bridge", "up")
        for number, name in enumerate(every[1:], 1):
            far = ["peer", "name", port(number), "netns", space(SWITCH)]
            ip("link", "add", "line", "netns", space(name), "type", "veth", *far)
            inside(name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "line")
            inside(name, "link", "set", "line", "up")
            inside(SWITCH, "link", "set", port(number), "master", "bridge", "up")
        yield
    finally:
        for name in every:
            subprocess.run(["ip", "netns", "del", space(name)], check=False, capture_output=True)


# --- what becomes of the line of host `number` ------------------------------------------------------


def cut(number: int) -> None:
    """Nothing passes any more; the host's own end stays up."""
    inside(SWITCH, "link", "set", port(number), "nomaster")


def mend(number: int) -> None:
    """As it was before `cut`."""
    inside(SWITCH, "link", "set", port(number), "master", "bridge")


def deafen(number: int) -> None:
    """Nothing arrives at the host any more; what it sends does."""
    shape(SWITCH, port(number), "rate", "8bit", "burst", "1", "limit", "1")


def hear(number: int) -> None:
    """As it was before `deafen`."""
    tc(SWITCH, "qdisc", "del", "dev", port(number), "root")


def slow(name: str, number: int, up_kbit: int, down_kbit: int) -> None:
    """So much at most, with a second of packets that wait before either end."""
    for place, line, rate in ((name, "line", up_kbit), (SWITCH, port(number), down_kbit)):
        shape(place, line, "rate", f"{rate}kbit", "burst", "16kb", "latency", "1s")


def move(name: str, number: int, to: int) -> None:
    """The host has another address, as in another cell or after its router was started anew."""
    inside(name, "addr", "del", f"{NETWORK}.{number}/24", "dev", "line")
    inside(name, "addr", "add", f"{NETWORK}.{to}/24", "dev", "line")


@contextmanager
def far(hosts: Mapping[str, int], delay_s: float, loss: float) -> Iterator[None]:
    """Packets from and to these hosts, by name and number, take so long each way and are lost so often, in this context."""
    relays = []
    try:
        for name, number in hosts.items():
            ends = f"far{number}", f"near{number}"
            inside(SWITCH, "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            for end in ends:
                inside(SWITCH, "link", "set", end, "up")
            for place, end in ((name, "line"), (SERVER, "line")):
                subprocess.run(_python(place, end), check=True)
            cut(number)
            relays.append(subprocess.Popen(_python(SWITCH, port(number), ends[0], delay_s, loss)))
            inside(SWITCH, "link", "set", ends[1], "master", "bridge")
        yield
    finally:
        for relay in relays:
            relay.kill()
            relay.wait()
        for number in hosts.values():
            inside(SWITCH, "link", "del", f"far{number}")
            mend(number)


# --- commands ---------------------------------------------------------------------------------------


def space(name: str) -> str:
    """The namespace of a host of this process's network."""
    return f"fedsuite-{os.getpid()}-{name}"


def port(number: int) -> str:
    """The switch's end of a host's line."""
    return f"port{number}"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def inside(name: str, *words: str) -> None:
    ip("-n", space(name), *words)


def _python(name: str, *words: str | float) -> list[str]:
    """far_line.py on a host."""
    program = [sys.executable, far_line.__file__, *map(str, words)]
    return ["ip", "netns", "exec", space(name), *program]


def tc(name: str, *words: str) -> None:
    subprocess.run(["tc", "-n", space(name), *words], check=True, capture_output=True)


def shape(name: str, line: str, *words: str) -> None:
    tc(name, "qdisc", "replace", "dev", line, "root", "tbf", *words)
