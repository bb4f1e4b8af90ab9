"""Workers on the hosts of a Ray cluster: how many each gets, who replaces one that died, and what hosts that join bring."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from simulations.engines.ray.cluster import (
    OPTION,
    Host,
    check_alike,
    hosts_of,
    kinds_told,
    needed,
    probed,
    strategy_for,
    token_in,
    told_apart,
)
from simulations.engines.ray.placement import Placement, Resources


@dataclass(frozen=True)
class ClusterPlacement(Placement):
    """hosts: how many workers each one gets, by Ray's id; apart: ids of hosts without the run's folder; known: all hosts."""

    known: Mapping[str, Host] = field(default_factory=dict)
    hosts: Mapping[str, int] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    def __str__(self) -> str:
        told = ", ".join(f"{n} on {self.known[node].name}" for node, n in self.hosts.items())
        return f"{super().__str__()}; workers: {told}"

    def record(self) -> dict[str, Any]:
        named: Counter[str] = Counter()
        for node, workers in self.hosts.items():
            named[self.known[node].name] += workers
        return super().record() | {"hosts": dict(sorted(named.items()))}


def placed_on(
    hosts: Sequence[Host], resources: Resources, device: str, clients: int
) -> dict[str, int]:
    """Workers by host: on all GPUs, or as many as there are clients or were asked for, evenly over the CPUs."""
    if device != "cpu" and any(host.gpus for host in hosts):
        each = resources.workers_per_gpu or 1
        return {host.node: host.gpus * each for host in hosts if host.gpus}
    if device == "cuda":
        raise InputError(
            f"device: cuda was asked for, but no host of {OPTION} has a GPU; set device=cpu or auto"
        )
    room = sum(host.cpus for host in hosts)
    if not room:
        raise InputError(
            f"{OPTION}: its hosts have no CPUs to hand out; start them with --num-cpus"
        )
    if (resources.workers or 0) > room:
        raise InputError(
            f"--workers: {resources.workers} wanted, but the cluster has {room} CPUs; give fewer"
        )
    found: Counter[str] = Counter()
    for _ in range(min(resources.workers or clients, room)):
        free = [host for host in hosts if found[host.node] < host.cpus]
        found[min(free, key=lambda h: (found[h.node] / h.cpus, h.name, h.node)).node] += 1
    return dict(found)


def cluster_placement(
    resources: Resources, run_config: Mapping[str, Any], folder: Path, clients: int
) -> tuple[ClusterPlacement, list[str]]:
    """Where the workers of a run go, and what is to be told of the hosts; InputError where one cannot play it."""
    hosts = hosts_of()
    spread = placed_on(hosts, resources, str(run_config["device"]), clients)
    used = {host.node: host for host in hosts if host.node in spread}
    paths = needed(run_config, folder)
    with token_in(folder) as token:
        facts = probed(used, token, paths)
    check_alike(used, facts, paths)
    gpus = sum(used[node].gpus for node in spread) if run_config["device"] != "cpu" else 0
    apart = frozenset(node for node, own in facts.items() if not own.sees)
    placement = ClusterPlacement(sum(spread.values()), gpus, 0, used, spread, apart)
    return placement, [*kinds_told(used, facts), *told_apart(used, apart)]


class Crew:
    """Workers by host: who replaces one that died, and what hosts that joined bring.

    hire: makes an actor, without the run's folder or with it, by Ray's scheduling strategy.
    """

    def __init__(
        self, placement: ClusterPlacement, paths: Sequence[str], hire: Callable[..., Any]
    ) -> None:
        self._paths = paths
        self._hire, self._size, self._apart = hire, dict(placement.hosts), placement.apart
        self._of: dict[int, str] = {}
        self._all = iter([node for node, n in placement.hosts.items() for _ in range(n)])
        self._asked = frozenset(placement.known)
        self._per_gpu, self._gpus = placement.per_gpu, placement.gpus

    def worker(self, number: int) -> tuple[Any, bool] | None:
        """Worker `number`, anew on its own host, or where a host has room; None where none has."""
        living = {host.node: host for host in hosts_of()}
        node = self._of.get(number) or next(self._all, "")
        if node not in living:
            self._of.pop(number, None)
            busy = Counter(self._of.values())
            free = [n for n in living if busy[n] < self._size.get(n, 0)]
            if not free:
                return None
            node = min(free, key=lambda n: (busy[n], living[n].name, n))
        self._of[number] = node
        # Nobody has asked a host that joined later whether it has the run's folder.
        apart = node in self._apart or node not in self._asked
        return self._hire(apart, scheduling_strategy=strategy_for(node)), apart

    def lost(self, number: int) -> bool:
        """Whether the host of this worker is gone."""
        return self._of.get(number) not in {host.node for host in hosts_of()}

    def more(self) -> int:
        """How many workers hosts bring that were not there before; they are used from now on."""
        found = {host.node: host for host in hosts_of() if host.node not in self._size}
        self._size |= dict.fromkeys(found, 0)
        for node, host in found.items():
            try:
                facts = probed({node: host}, "", self._paths)
                check_alike({node: host}, facts, self._paths)
            except InputError as error:
                print(f"not used: {error}", file=sys.stderr)
            else:
                self._size[node] = self._room(host)
        return sum(self._size[node] for node in found)

    def _room(self, host: Host) -> int:
        return host.gpus * self._per_gpu if self._gpus else host.cpus
