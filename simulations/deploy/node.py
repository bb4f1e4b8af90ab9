"""`fedsuite deploy node`: a SuperNode in the foreground, from its node.toml.

It waits for a SuperLink that does not answer, and for one that takes its earlier self for alive: Flower refuses a node that
was killed, not stopped, until a minute without heartbeats is over.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from fedsuite.errors import InputError, RunFailed, one_line
from fedsuite.roster.node import NodeSettings, read_node
from fedsuite.storage.files import locked, make_private, telling, write_atomically
from simulations.deploy.check.probe import Unreachable, ask
from simulations.deploy.kit.address import Address, read_address
from simulations.deploy.kit.keys import fingerprint_of_private, read_private
from simulations.deploy.polling import ANOTHER, DEFAULT_S, POLL_S
from simulations.deploy.programs import WARM, ended, run_program
from simulations.engines.flower import command_path, flower_settings, free_port

REFUSED_S = 75.0  # Flower forgets a silent node after 60
AGAIN_S = 5.0
SUPERNODE = "flower-supernode"
LOCK_PATIENCE_S = 15.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class NodeStart:
    """What a SuperNode is started with. port: of its own API, 0 = any; poll_s: how often it asks for messages."""

    file: Path
    own: NodeSettings
    superlink: Address
    authority: Path
    key: Path
    port: int = 0
    poll_s: float = DEFAULT_S

    @property
    def home(self) -> Path:
        """Flower's: the apps that runs bring."""
        return Path(self.own.state_dir) / "flower"

    def command(self, warm: str = "") -> list[str]:
        """warm: the folder of programs that start warm, as `warm_clients` names it; "" for a process of its own."""
        program = command_path(SUPERNODE)
        cold = [sys.executable, "-m", "simulations.deploy.polling", f"{self.poll_s:g}", program]
        return [
            *([str(Path(warm) / SUPERNODE)] if warm else cold),
            *("--superlink", str(self.superlink)),
            *("--root-certificates", str(self.authority)),
            *("--auth-supernode-private-key", str(self.key)),
            *("--host", "127.0.0.1", "--port", str(self.port or free_port())),
            *("--node-config", f'node="{self.file}"'),
        ]


def start_of(
    file: Path,
    superlink: str,
    authority: Path | None,
    key: Path | None,
    port: int,
    poll_s: float = DEFAULT_S,
) -> NodeStart:
    """Read node.toml; what is not given lies beside it. InputError for what cannot work."""
    file = file.absolute()
    own = read_node(file)
    if set(str(file)) & set('"\\'):
        raise InputError(
            f"{file}: Flower takes no path with a quotation mark or a backslash; rename it"
        )
    start = NodeStart(
        file,
        own,
        superlink_of(own, superlink, file),
        (authority or file.with_name("ca.crt")).absolute(),
        (key or file.with_name("node.key")).absolute(),
        port,
        poll_s,
    )
    read_private(start.key)
    return start


def superlink_of(own: NodeSettings, given: str, file: Path) -> Address:
    """Where the SuperLink is: as given, else as the node's file says."""
    if given:
        return read_address(given, "--superlink")
    if not own.superlink:
        raise InputError(
            f"{file}: superlink is empty, expected HOST:PORT; set it, or give --superlink"
        )
    return read_address(own.superlink, f"{file}: superlink")


def run_node(start: NodeStart, say: Say, warm: bool = False) -> None:
    """Run until we are asked to end (KeyboardInterrupt); InputError or RunFailed, with the cure, where it cannot go on."""
    environment = {**os.environ, **flower_settings(start.home), POLL_S: f"{start.poll_s:g}"}
    with _alone(start), _clients(start, environment, warm) as prepared:
        _stay_connected(start, prepared, say)


def _stay_connected(start: NodeStart, environment: Mapping[str, str], say: Say) -> None:
    """One attempt after the other, until one connects and ends, or can never connect."""
    give_up: float | None = None
    while True:
        _wait_for_answer(start, say)
        ears = _Ears(start, say)
        status = run_program(
            start.command(environment.get(WARM, "")), environment, start.home, ears.hear
        )
        if ears.online:
            raise RunFailed(
                f"flower-supernode {ended(status)} after it had connected; start it again"
            )
        complaint = ears.complaint(status)
        if complaint:
            raise RunFailed(complaint)
        if give_up is None:
            give_up = time.monotonic() + (REFUSED_S if _was_online(start) else 0.0)
            if _was_online(start):
                say(
                    f"{start.superlink} refuses {start.own.name}: its earlier self is not known to be gone yet, which takes "
                    f"up to a minute; trying again every {AGAIN_S:g} s"
                )
        if time.monotonic() >= give_up:
            raise RunFailed(
                f"{start.superlink} refuses {start.own.name}: its key is not registered there, or another process uses it; "
                f"register {start.key}.pub with `fedsuite deploy register`, then start the node again"
            )
        time.sleep(AGAIN_S)


def _clients(
    start: NodeStart, environment: Mapping[str, str], warm: bool
) -> AbstractContextManager[Mapping[str, str]]:
    """The environment in which client processes start; warm: from one that has imported everything."""
    if not warm:
        return nullcontext(environment)
    from simulations.deploy.warm.start import warm_clients

    return warm_clients(environment, start.own)


@contextmanager
def _alone(start: NodeStart) -> Iterator[None]:
    """With its own folder for Flower, which one process at a time uses."""
    with telling(start.home):
        make_private(start.home)
    with locked(start.home / ".lock", LOCK_PATIENCE_S) as ours:
        if not ours:
            raise InputError(
                f"{start.file}: another `fedsuite deploy node` runs on it; stop it first"
            )
        yield


def _wait_for_answer(start: NodeStart, say: Say) -> None:
    """Until the SuperLink answers; says once that it does not."""
    said = False
    while True:
        try:
            ask(start.superlink, start.authority)
        except Unreachable as error:
            if not said:
                say(f"{error}; is the SuperLink up, and the address right? trying on")
            said = True
            time.sleep(AGAIN_S)
        else:
            if said:
                say(f"{start.superlink} answers")
            return


def _was_online(start: NodeStart) -> bool:
    """Whether this SuperLink has let in a node with this key before."""
    stamp = _stamp(start)
    return stamp.is_file() and stamp.read_text(errors="replace") == _identity(start)


def _stamp(start: NodeStart) -> Path:
    return start.home / "connected-as"


def _identity(start: NodeStart) -> str:
    return f"{fingerprint_of_private(read_private(start.key))} {start.superlink}\n"


@dataclass
class _Ears:
    """Listens to a SuperNode: what it says before it has connected is kept, for where it never does.

    What our own part of its process says (polling.py) is passed on at once.
    """

    start: NodeStart
    say: Say
    online: bool = False
    waits: bool = False
    kept: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        if self.online:
            self.say(line)
            return
        self.kept.append(line)
        if "SuperNode ID:" in line:
            self.online = True
            write_atomically(_stamp(self.start), _identity(self.start).encode())
            self.say(
                f"{self.start.own.name} is connected to {self.start.superlink}; Ctrl-C ends it"
            )
        elif line.startswith(ANOTHER):
            self.say(line)
        elif "retrying in" in line and not self.waits:
            self.waits = True
            self.say(f"{self.start.superlink} does not answer any more; trying on")

    def complaint(self, status: int) -> str:
        """Why it could not connect and never will; "" where the SuperLink does not let the node in, now."""
        words = "\n".join(self.kept)
        if "[code: 2004]" in words:
            return ""
        where = f"{self.start.superlink} refuses {self.start.own.name}"
        if "Exit Code: 606" in words:
            return f"{where}: it has another version of Flower; install the same minor version on both machines"
        if "401 Unauthorized" in words or status == 0:  # it stops itself then
            return (
                f"{where}: it does not take the node's signature; set the clocks of both machines"
            )
        last = one_line(" ".join(words.split())[-400:])
        return f"flower-supernode {ended(status)}: {last}"
