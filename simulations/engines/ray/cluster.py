"""A Ray cluster that somebody has started: its hosts, whether they can play a run, and workers on each of them.

The cluster is joined and left as it is found. Every host needs the same fedsuite, Flower, torch and NumPy, and whatever the
settings name by a path (data, a roster, a model to start from). What clients keep needs no shared disk: see keeping.py.
"""

import logging
import os
import platform
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fedsuite.errors import InputError, one_line
from fedsuite.storage.deleting import TEMPORARY, delete_file
from simulations.engines.ray.placement import visible_gpus
from simulations.engines.ray.session import handlers_kept

SAME = ("fedsuite", "flwr", "torch", "numpy")  # packages of one version on all hosts
OPTION = "--cluster"
_LOOPBACK = ("127.", "localhost")
_OF_THE_RUN = ("results-dir", "resume", "data.cache-dir")  # paths that hosts make themselves
PROBE_S, REACH_S, WAIT_S = 120.0, 10.0, 300.0


@dataclass(frozen=True)
class Host:
    """One host of the cluster. node: Ray's id of it; cpus, gpus: what Ray hands out there."""

    node: str
    name: str
    cpus: int
    gpus: int


@dataclass(frozen=True)
class Facts:
    """What a host says of itself. sees: whether the file it was asked for is there; missing: paths that are not."""

    versions: Mapping[str, str]
    processor: str
    gpus: tuple[str, ...]
    sees: bool
    missing: tuple[str, ...]


@contextmanager
def joined(address: str, hosts: int = 0) -> Iterator[None]:
    """This process as a program of the cluster, once it has so many hosts; InputError where there is none."""
    import ray

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # workers are told themselves
    where = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    loopback = where.startswith(_LOOPBACK)
    more: dict[str, Any] = {"_node_ip_address": "127.0.0.1"} if loopback else {}
    try:
        _reached(where, WAIT_S if hosts else 0)
        # Of a cluster that listens on 127.0.0.1 Ray would look for the machine's own address.
        here = patch.object(ray._private.services, "resolve_ip_for_localhost", str)
        with here if loopback else nullcontext(), handlers_kept():
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **more,
            )
    except Exception as error:  # Ray raises plain exceptions; whatever it is, nobody answers
        said = next(
            (line for line in str(error).splitlines() if line.strip()), type(error).__name__
        )
        raise InputError(
            f"{OPTION} {address}: no Ray cluster answers there ({one_line(said, 200)}); start one with `ray start --head`, "
            "or see to the address"
        ) from None
    try:
        _wait_for(hosts)
        yield
    finally:
        ray.shutdown()


def _reached(address: str, wait_s: float) -> None:
    """OSError where nobody listens: Ray would look for minutes. Nothing of what is no HOST:PORT."""
    host, colon, port = address.rpartition(":")
    give_up = time.monotonic() + wait_s
    while colon and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), REACH_S).close()
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(1)
        else:
            return


def _wait_for(hosts: int) -> None:
    give_up = time.monotonic() + WAIT_S
    while (there := len(hosts_of())) < hosts:
        if time.monotonic() > give_up:
            raise InputError(
                f"--hosts: {hosts} wanted, but the cluster has {there} after {WAIT_S:.0f} s; see to the others, "
                "or give fewer"
            )
        time.sleep(1)


def hosts_of() -> list[Host]:
    """Living hosts of the cluster that was joined, by name."""
    import ray

    found = []
    for node in ray.nodes():
        if node["Alive"]:
            there = node["Resources"]
            cpus, gpus = int(there.get("CPU", 0)), int(there.get("GPU", 0))
            found.append(Host(node["NodeID"], str(node["NodeManagerHostname"]), cpus, gpus))
    return sorted(found, key=lambda host: (host.name, host.node))


def _processor() -> str:
    """Its model, where the system says it."""
    with suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def facts_of(seen: str, paths: Sequence[str]) -> Facts:
    """Of the host that this is called on."""
    versions = {"python": platform.python_version()}
    for package in SAME:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    gpus: tuple[str, ...] = ()
    if count := visible_gpus():
        import torch

        gpus = tuple(torch.cuda.get_device_name(i) for i in range(count))
    missing = tuple(path for path in paths if not Path(path).exists())
    return Facts(versions, _processor(), gpus, Path(seen).exists(), missing)


def strategy_for(node: str) -> Any:
    """Ray's word for this host and no other."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def needed(run_config: Mapping[str, Any], folder: Path) -> list[str]:
    """Paths that settings name and that are here, outside of the run's own folder."""
    named = (v for k, v in run_config.items() if k not in _OF_THE_RUN and isinstance(v, str))
    found = [Path(path) for path in named if os.path.isabs(path) and Path(path).exists()]
    return [str(path) for path in found if not path.is_relative_to(folder)]


@contextmanager
def token_in(folder: Path) -> Iterator[str]:
    """A file where the run's folder is, or will be; who sees it shares the disk."""
    above = next(path for path in (folder, *folder.parents) if path.is_dir())
    token = above / f"{TEMPORARY}{uuid.uuid4().hex}"
    token.touch()
    try:
        yield str(token)
    finally:
        delete_file(token)


def probed(hosts: Mapping[str, Host], token: str, paths: Sequence[str]) -> dict[str, Facts]:
    import ray
    from ray.exceptions import RayError

    def ask(node: str) -> Any:
        options = ray.remote(facts_of).options(num_cpus=0, scheduling_strategy=strategy_for(node))
        return options.remote(token, paths)

    asked = {node: ask(node) for node in hosts}
    found = {}
    for node, reference in asked.items():
        try:
            found[node] = ray.get(reference, timeout=PROBE_S)
        except RayError as error:
            said = next((x for x in reversed(str(error).splitlines()) if x.strip()), "no answer")
            raise InputError(
                f"{OPTION}: host {hosts[node].name} cannot play this run ({one_line(said, 200)}); install the same fedsuite "
                "there, in the Python that its `ray start` uses"
            ) from None
    return found


def check_alike(
    hosts: Mapping[str, Host], facts: Mapping[str, Facts], paths: Sequence[str]
) -> None:
    here = facts_of("", paths)
    for node, own in facts.items():
        for what, wanted in here.versions.items():
            if (got := own.versions.get(what, "none")) != wanted:
                raise InputError(
                    f"{OPTION}: host {hosts[node].name} has {what} {got}, this one {wanted}; install the same on both"
                )
        if own.missing:
            raise InputError(
                f"{OPTION}: host {hosts[node].name} does not have {own.missing[0]}, which the settings name; copy it "
                "there, or use a disk that all hosts share"
            )


def kinds_told(hosts: Mapping[str, Host], facts: Mapping[str, Facts]) -> list[str]:
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for node, own in facts.items():
        kinds.setdefault((own.processor, tuple(sorted({*own.gpus}))), []).append(hosts[node].name)
    if len(kinds) < 2:
        return []
    told = "; ".join(f"{', '.join((m, *g))}: {', '.join(names)}" for (m, g), names in kinds.items())
    return [
        f"hosts are of several kinds, so the last bits of results may differ from run to run ({told})"
    ]


def told_apart(hosts: Mapping[str, Host], apart: frozenset[str]) -> list[str]:
    names = ", ".join(sorted(hosts[node].name for node in apart))
    return (
        [f"no shared disk with {names}: what its clients keep travels with their messages"]
        if apart
        else []
    )
