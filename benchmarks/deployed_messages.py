"""What a message costs between a SuperLink and its nodes, all on this machine: seconds, and CPU seconds of both sides.

N nodes over TLS, each a `fedsuite deploy node` with a folder and a key of its own, train a network of some size side by
side; the training itself is one step on one example. Counted from the end of the second round to the end of the last: wall
seconds of a round without its slowest client's computing (median), and CPU seconds of the SuperLink with all that it started
but the run's own server, of that server, and of the nodes with all that they started, each divided by rounds x nodes; then
the share of a core that they use without a run. A system's clients keep nothing here, so that what is left is messages.

    python -m benchmarks.deployed_messages [--nodes 3 12] [--megabytes 0.4 43] [--rounds 12] [--cold] [--idle-s 60]
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.messages_system import NAME, WIDTH, names
from benchmarks.report import finish, median
from fedsuite import roster_of
from fedsuite.history import TIMINGS, Kind, kind_of
from simulations.deploy.kit.address import Address
from simulations.deploy.kit.bundle import hand_out, make_kit, node_folders
from simulations.engines.flower import free_port
from simulations.engines.nodes.following import Tail
from simulations.engines.processes import living_processes

GOALS_S = {(3, 0.4): 2.0, (12, 0.4): 6.0, (3, 43.0): 6.0}  # a message, small and large
START_LIMIT_S, RUN_LIMIT_S = 240.0, 3600.0
TICKS = os.sysconf("SC_CLK_TCK")


class Site:
    """SuperLink and nodes as operators start them; processes by name."""

    def __init__(self, home: Path, count: int, options: list[str]) -> None:
        self.home, self.kit, self.count, self.options = home, home / "kit", count, options
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        make_kit(self.kit, names(count), Address("127.0.0.1", free_port()))
        for folder in node_folders(self.kit):
            file = folder / "node.toml"
            text = file.read_text()
            file.write_text(
                text.replace('# allow-systems = ["fedvln"]', f'allow-systems = ["{NAME}"]')
            )
        hand_out(self.kit, roster_of(names(count), [1] * count))

    def start(self) -> None:
        self.launch("server", "deploy", "server", str(self.kit / "server"))
        self.wait_for("server", "Uvicorn running on")
        command = [sys.executable, "-m", "simulations.commands.cli", "deploy", "register"]
        subprocess.run([*command, str(self.kit / "server")], check=True, stdout=subprocess.DEVNULL)
        for folder in node_folders(self.kit):
            self.launch(folder.name, "deploy", "node", str(folder / "node.toml"), *self.options)
        for folder in node_folders(self.kit):
            self.wait_for(folder.name, "is connected to")

    def launch(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "simulations.commands.cli", *arguments]
            self.processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        return self.processes[name]

    def said(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name: str, words: str) -> None:
        give_up = time.monotonic() + START_LIMIT_S
        while words not in self.said(name):
            if self.processes[name].poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"{name} never said {words!r}: {self.said(name)[-2000:]}")
            time.sleep(0.2)

    def cpu_s(self) -> dict[str, float]:
        """CPU seconds so far: of the SuperLink, the server of its run, and all nodes, what they started included."""
        children: dict[int, list[int]] = {}
        for living in living_processes():
            children.setdefault(living.parent, []).append(living.pid)
        found = dict.fromkeys(("superlink", "server", "nodes"), 0.0)
        for name, process in self.processes.items():
            if name != "run":
                self._add(
                    process.pid, "superlink" if name == "server" else "nodes", children, found
                )
        return found

    def _add(
        self, pid: int, side: str, children: Mapping[int, list[int]], found: dict[str, float]
    ) -> None:
        line, used = used_by(pid)
        side = "server" if "flwr-serverapp" in line else side
        found[side] += used
        for child in children.get(pid, ()):
            self._add(child, side, children, found)

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()


def used_by(pid: int) -> tuple[str, float]:
    """Command line of a process and its CPU seconds, with those of children that have ended."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return "", 0.0
    return line, sum(map(int, fields[11:15])) / TICKS


@contextmanager
def started(count: int, options: list[str]) -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="fs-bench-") as home:
        site = Site(Path(home), count, options)
        try:
            site.start()
            yield site
        finally:
            site.end()


def measured(site: Site, megabytes: float, rounds: int) -> dict[str, float]:
    """Of one message: its seconds (median round), and CPU seconds of each side."""
    name, rows = f"mb-{megabytes:g}", max(1, round(megabytes * 1e6 / 4 / (WIDTH + 1)))
    values = {
        "nodes": site.count, "rows": rows, "num-rounds": rounds, "evaluate-every": 0, "name": name,
        "results-dir": site.home / "runs", "roster": site.kit / "server" / "roster.json",
    }  # fmt: skip
    toml = site.home / f"{name}.toml"
    toml.write_text(f'system = "{NAME}"\n')
    sets = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
    where = ["--engine", "deploy", "--connection", str(site.kit / "server")]
    run = site.launch("run", "run", str(toml), *where, *sets)
    tail, seconds, give_up = (
        Tail(site.home / "runs" / name / TIMINGS),
        [],
        time.monotonic() + RUN_LIMIT_S,
    )
    computed, before = 0.0, dict[str, float]()
    after: dict[str, float] = {}
    while not after:
        for row in tail.rows():
            if kind_of(row) is Kind.CLIENT:
                computed = max(computed, float(row["compute-seconds"] or 0.0))
            if kind_of(row) is not Kind.ROUND or row["round"] < 2:
                continue
            if row["round"] == 2:
                before = site.cpu_s()
            else:
                seconds.append(float(row["seconds"]) - computed)
            computed = 0.0
            if row["round"] == rounds:
                after = site.cpu_s()
        if (run.poll() is not None and not after) or time.monotonic() > give_up:
            raise SystemExit(f"the run ended: {site.said('run')[-2000:]}")
        time.sleep(0.05)
    run.wait(RUN_LIMIT_S)
    messages = (rounds - 2) * site.count
    cpu = {f"{side}-cpu-s": round((after[side] - before[side]) / messages, 3) for side in before}
    return {
        "nodes": site.count,
        "megabytes": megabytes,
        "wall-s": round(median(seconds[:-1]), 2),
        **cpu,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[3, 12])
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.4, 43.0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--idle-s", type=float, default=60.0)
    parser.add_argument("--cold", action="store_true")
    asked = parser.parse_args()
    if asked.rounds < 4:
        parser.error("--rounds: two are not counted, nor is the last; give 4 at least")
    worst, rows = 0.0, []
    for count in asked.nodes:
        with started(count, ["--cold"] if asked.cold else []) as site:
            for megabytes in asked.megabytes:
                rows.append(row := measured(site, megabytes, asked.rounds))
                print(row, flush=True)
                if goal := GOALS_S.get((count, megabytes)):
                    worst = max(worst, row["wall-s"] / goal)
            time.sleep(asked.idle_s / 2)  # nodes ask more and more seldom
            before = site.cpu_s()
            time.sleep(asked.idle_s)
            after = site.cpu_s()
            idle = {s: 100 * (after[s] - before[s]) / asked.idle_s for s in ("superlink", "nodes")}
            told = {f"idle-{side}-percent": round(share, 2) for side, share in idle.items()}
            rows.append({"nodes": count, **told})
            print(rows[-1], flush=True)
    finish("deployed_messages", worst, 1.0, rows=rows)


if __name__ == "__main__":
    main()
