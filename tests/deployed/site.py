"""A whole deployment on this machine, over TLS and with keys: SuperLink, nodes and runs, each with a folder of its own.

All is started as people do it, by `fedsuite deploy` and `fedsuite run --engine deploy`; processes can be killed one by one.
users.py has a site whose members are users of the machine.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedsuite.roster.members import read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from simulations.engines.flower import free_port
from simulations.engines.processes import living_processes
from tests.deployed.digests import digests
from tests.deployed.worlds import World

ROOT = Path(__file__).parents[2]
START_S, NAME = 300.0, "deployed"  # a minute on a quiet machine


class Site:
    """Below `home`: kit/ (what `deploy init` makes), runs/, logs/. `toml` describes the run of `world`.

    words: FedVLN's, where the nodes have data of their own; a file of them.
    """

    host = "127.0.0.1"  # the SuperLink's

    def __init__(self, home: Path, world: World, toml: Path, words: Path | None = None) -> None:
        self.home, self.toml, self.kit, self.logs = home, toml, home / "kit", home / "logs"
        self.logs.mkdir(parents=True)
        self.watched = False  # whether the files that processes open are written down from now on
        self.heartbeats = False  # whether nodes started from now on are missed after 12 s, not 60
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._before: dict[str, int] = {}  # bytes of the logs when their latest process began
        place = ["--host", self.host, "--port", str(free_port())]
        if world.own is None:
            self.do("deploy", "init", str(self.kit), *place, "--run", str(toml))
        else:
            self.do("deploy", "init", str(self.kit), *place, "--nodes", ",".join(world.names))
            for name in world.names:
                world.own(self.node(name) / "data", name)
                lines = [f'{k} = "data/{v}"' for k, v in world.keys.items()]
                with (self.node(name) / "node.toml").open("a") as file:
                    file.write("\n".join(lines) + "\n")
            self.settle(world.names)
            self._make_roster(world.names, words)
        self.roster = read_roster(self.server / "roster.json")
        self.folder = RunFolder(self.runs / NAME)

    # --- who does what, and where: all in one folder, by one user ------------------------------------

    @property
    def server(self) -> Path:
        return self.kit / "server"

    @property
    def runs(self) -> Path:
        return self.home / "runs"

    def node(self, name: str) -> Path:
        return self.kit / "nodes" / name

    def settle(self, names: Sequence[str]) -> None:
        """Everybody takes the folder that is its own; here they stay where they are."""

    def hand(self, file: Path, to: Path) -> Path:
        """A file that somebody was sent; its copy in the folder `to`."""
        return Path(shutil.copy(file, to))

    def acting(self, name: str) -> dict[str, Any]:
        """How a process of this member, of "server", "run" or, as "", of the founder is begun; of subprocess."""
        return {"env": self._environment()}

    def command(self, name: str, *arguments: str) -> list[str]:
        """Of fedsuite, for this member."""
        return command(*arguments)

    def _make_roster(self, names: Sequence[str], words: Path | None) -> None:
        """As operators who never meet do it: each says what it has, and gets the roster."""
        parts = []
        for name in names:
            node, part = self.node(name), self.node(name) / f"{name}.json"
            said = ["--key", str(node / "node.key.pub"), "--out", str(part)]
            self.do("data", "prepare-node", str(node / "node.toml"), str(self.toml), *said, by=name)
            parts.append(str(self.hand(part, self.server)))
        given = ["--vocabulary", str(self.hand(words, self.server))] if words else []
        made = self.server / "roster.json"
        self.do("data", "make-roster", *parts, *given, "--out", str(made), by="server")
        for name in names:
            self.hand(made, self.node(name))

    def start(self, *options: str) -> None:
        """SuperLink and all nodes, connected; options: of the nodes."""
        self.start_server()
        self.do("deploy", "register", str(self.server), by="server")
        for name in self.roster.names:
            self.start_node(name, *options)
        for name in self.roster.names:
            self.wait_for(name, "is connected to")

    def start_server(self) -> None:
        self.launch("server", "deploy", "server", str(self.server))
        self.wait_for("server", "Uvicorn running on")

    def start_node(self, name: str, *options: str) -> None:
        self.launch(name, "deploy", "node", str(self.node(name) / "node.toml"), *options)

    def start_run(self, resume: bool = False) -> None:
        """The run, or the same once more, from its last checkpoint."""
        given = ["run", "--engine", "deploy", "--connection", str(self.server)]
        if resume:
            self.launch("run", *given, "--resume", str(self.folder.path))
            return
        own: dict[str, Value] = {
            "name": self.folder.path.name,
            "results-dir": str(self.folder.path.parent),
            "roster": str(self.server / "roster.json"),
        }
        sets = [part for key, value in own.items() for part in ("--set", f"{key}={value}")]
        self.launch("run", *given, str(self.toml), *sets)

    def do(self, *arguments: str, by: str = "") -> str:
        """A command that ends by itself; what it said."""
        done = subprocess.run(
            self.command(by, *arguments),
            **self.acting(by),
            check=False,
            capture_output=True,
            text=True,
            timeout=START_S,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def launch(self, name: str, *arguments: str) -> None:
        """A command that goes on; its words go to logs/NAME.log, behind those of the last one of this name."""
        with self.log(name).open("ab") as log:
            self._before[name] = log.tell()
            self.processes[name] = subprocess.Popen(
                self.command(name, *arguments), **self.acting(name), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def wait_for(self, name: str, words: str, limit_s: float = START_S) -> None:
        """Until the latest process of this name has said one of these words."""
        give_up = time.monotonic() + limit_s
        while not re.search(words, self.said(name)):
            ended = self.processes[name].poll()
            assert ended is None, f"{name} ended with {ended}: {self.said(name)[-2000:]}"
            assert time.monotonic() < give_up, (
                f"{name} never said {words}: {self.said(name)[-2000:]}"
            )
            time.sleep(0.1)

    def said(self, name: str) -> str:
        """By the latest process of this name."""
        return self.log(name).read_bytes()[self._before[name] :].decode(errors="replace")

    def below(self, name: str, word: str) -> list[int]:
        """Pids of the living descendants of a process that have `word` in their command line."""
        tree, living = {self.processes[name].pid}, living_processes()
        while more := {p.pid for p in living if p.parent in tree} - tree:
            tree |= more
        return [pid for pid in sorted(tree) if word in _command_line(pid)]

    def kill(self, name: str, word: str) -> bool:
        """kill -9 of the processes with `word` below one of ours; whether there were any."""
        found = self.below(name, word)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    def end(self) -> None:
        """Everything, as `kill` does it; what does not end is killed."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()

    def _environment(self) -> dict[str, str]:
        found = environment()
        if self.watched:
            found["FEDSUITE_WATCHED"] = str(self.home)
        for own in ["watching"] * self.watched + ["heartbeats"] * self.heartbeats:
            found["PYTHONPATH"] = f"{Path(__file__).with_name(own)}:{found['PYTHONPATH']}"
        return found

    def strayed(self) -> list[str]:
        """Whoever opened a file that is not its own: the server any node's, a node another's, anybody the data of all."""
        lines = (self.home / "opened" / "all").read_text().splitlines()
        rows = {(home, path) for home, _, path in (line.split("\t") for line in lines)}
        server, nodes, wrong = f"{self.server}/", f"{self.kit}/nodes/", []
        for home, path in sorted(rows):
            if home.startswith(server):
                free = [server, f"{self.folder.path}/"]
            elif home.startswith(nodes):
                free = [f"{nodes}{home.removeprefix(nodes).partition('/')[0]}/"]
            else:
                continue  # a command of ours, which starts one of these
            if not path.startswith(tuple(free)):
                wrong.append(f"{home} opened {path}")
        own = [path for home, path in rows if home.startswith(nodes) and "/cache/" in path]
        return wrong if own else ["no node opened its data: nothing was watched"]

    def results(self) -> dict[str, str]:
        """SHA-256 of history, model and the members' newest private states; compare `simulated`."""
        state = {n: self.node(n) / "state" / self.folder.run_key() / n for n in self.roster.names}
        return digests(self.folder, state)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "simulations.commands.cli", *arguments]


def environment() -> dict[str, str]:
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}


def _command_line(pid: int) -> str:
    try:
        file = Path(f"/proc/{pid}/cmdline")
        return file.read_text(encoding="utf-8", errors="replace").replace("\0", " ")
    except OSError:
        return ""
