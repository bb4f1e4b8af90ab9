"""A cluster of two hosts, of which one has no disk in common with the head: the bytes of one process, whoever is lost.

Both raylets are on this machine and listen on 127.0.0.1 alone; the second has file systems of its own (`unshare`), and
nothing of the runs' folder in it.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict

from fedsuite.errors import InputError
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import as_typed
from simulations.engines.flower import free_port
from simulations.engines.inprocess import run_inprocess, server_identity
from simulations.engines.processes import Family, wait_until
from simulations.engines.ray.cluster import Host, check_alike, facts_of, joined, kinds_told
from simulations.engines.ray.crew import placed_on
from simulations.engines.ray.keeping import Elsewhere, Files, Kept, stamps_of
from simulations.engines.ray.placement import Resources
from tests.golden.runs import RUNS
from tests.harness import (
    NOT_LAST,
    ROOT,
    cli,
    config_from,
    results_of,
    run_toy,
    start_cli,
    toml_from,
    wait_for_checkpoint,
)

LIMIT_S = 120.0
RUN_OF = {
    "fedvln": RUNS["vln-train-parallel"],
    "cdl": RUNS["cdl-ring"],
    "fedrl": {**RUNS["rl-joint"], "num-rounds": 1, "round-length": 16},
}
APART = "no shared disk with"


@dataclass
class Cluster:
    """runs: the folder that only the head has; second: processes of the other host."""

    address: str
    runs: Path
    second: Family


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    runs, port = tmp_path_factory.mktemp("head"), free_port()
    address, (head, second) = f"127.0.0.1:{port}", (Family(), Family())
    alone = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'mount -t tmpfs none {as_typed(runs)} && exec "$@"',
        "sh",
    ]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody have file systems of their own (unshare -m)")
    ray = [sys.executable, "-m", "tests.loopback_ray", "start", "--num-cpus", "1", "--block"]
    here = ["--node-ip-address", "127.0.0.1", "--disable-usage-stats"]
    here += ["--min-worker-port", "0", "--max-worker-port", "0"]  # other tests have their own Ray
    with tempfile.TemporaryDirectory("", "fs-", "/tmp", ignore_cleanup_errors=True) as home:
        place = ["--temp-dir", home, "--include-dashboard", "false"]
        try:
            _started([*ray, *here, "--head", "--port", str(port), *place], head, runs / "head.log")
            _started([*alone, *ray, *here, "--address", address], second, runs / "second.log")
            yield Cluster(address, runs, second)
        finally:
            for family in (second, head):
                family.end()


def _started(command: list[str], family: Family, log: Path) -> None:
    """A raylet that says that it is there."""
    own = {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0", **NOT_LAST}
    environment = family.environment(own)
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=ROOT)
    assert wait_until(
        lambda: (
            "Ray runtime started" in log.read_text(encoding="utf-8") or process.poll() is not None
        ),
        LIMIT_S,
    )
    assert process.poll() is None, log.read_text(encoding="utf-8")


def here(cluster: Cluster, system: str, cache: Path) -> RunFolder:
    """The run in one process, beside which the TOML lies."""
    values = {**RUN_OF[system], "system": system}
    (cluster.runs / f"{system}.toml").write_text(toml_from(values, cache_dir=str(cache)))
    place = {"name": f"{system}-here", "results-dir": str(cluster.runs / "runs")}
    folder = RunFolder(cluster.runs / "runs" / place["name"])
    if not folder.path.exists():
        run_inprocess(config_from({**values, **place, "cache-dir": str(cache)}))
    return folder


@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.parametrize("system", RUN_OF)
def test_two_hosts_without_a_common_disk_make_the_bytes_of_one_process(
    cluster: Cluster, cache: Path, system: str
) -> None:
    """One of them is resumed, by the head's folder alone."""
    expected = here(cluster, system, cache)
    there = RunFolder(cluster.runs / "runs" / f"{system}-there")
    typed = [
        "run",
        f"{system}.toml",
        "--cluster",
        cluster.address,
        "--set",
        f"name={there.path.name}",
    ]
    rounds = RUN_OF[system]["num-rounds"]
    if system == "fedvln":
        done = cli(cluster.runs, *typed, "--set", "num-rounds=2")
        assert done.returncode == 0 and APART in done.stdout, done.stderr
        typed = [
            "run",
            "--resume",
            there.path.name,
            "--cluster",
            cluster.address,
            "--set",
            f"num-rounds={rounds}",
        ]
    done = cli(cluster.runs, *typed)
    assert done.returncode == 0 and APART in done.stdout, done.stderr
    assert results_of(there) == results_of(expected)
    hosts = there.status()["placement"]["hosts"]
    assert sum(hosts.values()) == there.status()["placement"]["workers"] == 2
    assert not [*cluster.runs.glob("runs/fs-*"), *cluster.runs.glob("fs-*")]


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_a_lost_host_costs_its_tasks_alone(cluster: Cluster, cache: Path) -> None:
    expected = here(cluster, "fedvln", cache)
    there = RunFolder(cluster.runs / "runs" / "lost-there")
    typed = ("run", "fedvln.toml", "--cluster", cluster.address, "--set", "name=lost-there")
    process = start_cli(cluster.runs, *typed)
    wait_for_checkpoint(process, there, 1)
    for pid in cluster.second.update():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    out, err = process.communicate(timeout=4 * LIMIT_S)
    assert process.returncode == 0, out + err
    assert results_of(there) == results_of(expected)


def test_nobody_who_answers_is_one_line() -> None:
    with (
        pytest.raises(InputError, match=r"--cluster 127\.0\.0\.1:1: no Ray cluster .*refused"),
        joined("127.0.0.1:1"),
    ):
        pass


def test_workers_are_spread_evenly_over_the_hosts() -> None:
    hosts = [Host("a", "big", 6, 0), Host("b", "small", 2, 0)]
    assert placed_on(hosts, Resources(cluster="x"), "cpu", 100) == {"a": 6, "b": 2}
    assert placed_on(hosts, Resources(cluster="x"), "cpu", 4) == {"a": 3, "b": 1}
    assert placed_on(hosts, Resources(2, cluster="x"), "auto", 9) == {"a": 1, "b": 1}
    gpus = [Host("a", "big", 8, 4), Host("b", "none", 2, 0)]
    assert placed_on(gpus, Resources(workers_per_gpu=2, cluster="x"), "auto", 3) == {"a": 8}
    for resources, device, told in (
        (Resources(9, cluster="x"), "cpu", "--workers: 9 wanted, but the cluster has 8 CPUs"),
        (Resources(cluster="x"), "cuda", "device: cuda"),
    ):
        with pytest.raises(InputError, match=told):
            placed_on(hosts, resources, device, 3)


def test_hosts_that_differ_are_refused(tmp_path: Path) -> None:
    own = facts_of(str(tmp_path), [str(tmp_path / "data")])
    other = type(own)(own.versions, "another CPU", own.gpus, True, ())
    names = {"n": Host("n", "far", 1, 0), "m": Host("m", "near", 1, 0)}
    (told,) = kinds_told(names, {"n": own, "m": other})
    assert "another CPU: near" in told and own.processor in told
    assert kinds_told(names, {"n": own, "m": own}) == []
    assert own.sees and own.missing == (str(tmp_path / "data"),)
    assert {"python", "fedsuite", "flwr", "torch", "numpy"} == {*own.versions}
    hosts = {"n": Host("n", "far", 1, 0)}
    older = {**own.versions, "torch": "1.0"}
    for facts, told in (
        (own, "host far does not have .*data"),
        (type(own)(older, own.processor, (), True, ()), "host far has torch 1.0, this one"),
    ):
        with pytest.raises(InputError, match=told):
            check_alike(hosts, {"n": facts}, [])


def test_what_clients_keep_goes_out_as_far_as_it_lacks_and_comes_back(tmp_path: Path) -> None:
    head, far = tmp_path / "head", tmp_path / "far"
    run_toy(head, num_rounds=1)
    head = head / "run"
    own = head / "clients" / "site-0" / "round-000001.safetensors"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_bytes(b"one")
    kept, worker = Kept(head), Elsewhere()

    def sent(to: int, partition: int, **named: str) -> Files:
        """What goes along with a message to a node, which may name other clients."""
        content = RecordDict({"config": ConfigRecord(named)})
        context = Context(1, 9, {"partition-id": partition}, RecordDict(), {})
        with server_identity():
            return kept.sent(to, Message(content, 9, "train"), context)

    first, newer = sent(1, 0), "clients/site-0/round-000002.safetensors"
    assert first["clients/site-0/round-000001.safetensors"] == b"one" and "roster.json" in first
    assert not {"run.json", "history.jsonl"} & {*first}
    before = worker.put(far, first)
    assert {*before} == {*first} and sent(1, 0) == {}
    (far / newer).write_bytes(b"two")
    (far / "clients/site-0/round-000001.safetensors").unlink()
    (far / "roster.json").write_text("{}")
    half = far / "clients/site-0/.round-000003.safetensors.7.partial"
    half.mkdir()
    (half / ".tmp7").write_bytes(b"half")
    changed = worker.changed(far, before)
    kept.received(1, {**changed, "../escaped.json": b"x", "clients/../../escaped": b"x"})
    assert not own.exists() and (head / newer).read_bytes() == b"two"
    assert (head / newer).stat().st_mode & 0o077 == 0
    assert (head / "roster.json").read_text() != "{}" and not [*tmp_path.rglob("escaped*")]
    assert newer not in sent(1, 0)  # it has made it
    assert newer not in sent(2, 1)  # of another client
    assert sent(2, 1, **{"as-partition": "0"})[newer] == b"two"
    assert sent(3, 1, members="1,0")[newer] == b"two"
    here = {name for name in stamps_of(head) if "/site-0/" in name or "/" not in name}
    assert newer in here and {*stamps_of(far)} == here
