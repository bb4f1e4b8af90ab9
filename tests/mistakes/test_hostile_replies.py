"""A client that sends what it must not: it is named, nobody else is, and the run fails in one line or goes on without it."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from fedsuite.errors import RunFailed
from fedsuite.history import HISTORY, read_rows
from tests import cdl_runs, fedrl_runs, harness
from tests.fedvln_runs import METHODS, Chain, chain_in
from tests.mistakes.hostile import (
    Recording,
    Spoil,
    beside,
    entries,
    first_array,
    one_by_one,
    one_number,
    raised,
    recording,
    replay,
    with_arrays,
    with_block,
    with_header,
    with_metrics,
)

MEGABYTE = "a" * 2**20
ESCAPE = "\x1b]0;owned\x07\x1b[31mred"
SPOILT: dict[str, Spoil] = {
    "an array lost": with_arrays(lambda a: dict(list(a.items())[1:])),
    "no arrays": with_arrays(lambda a: {}),
    "an array more": with_arrays(lambda a: a | {"extra": np.zeros(3, np.float32)}),
    "a thousand more": with_arrays(lambda a: a | {f"x{i}": np.zeros(1) for i in range(1000)}),
    "an array renamed": with_arrays(lambda a: {ESCAPE + k: v for k, v in a.items()}),
    "a name of a megabyte": with_arrays(lambda a: a | {MEGABYTE: np.zeros(1, np.float32)}),
    "a path as name": with_arrays(lambda a: a | {"../../etc/passwd": np.zeros(1, np.float32)}),
    "a longer array": first_array(lambda a: np.concatenate([a.reshape(-1), a.reshape(-1)])),
    "an empty array": first_array(lambda a: a.reshape(-1)[:0]),
    "a number for an array": first_array(lambda a: np.float32(1)),
    "an axis more": first_array(lambda a: a[None]),
    "doubles": first_array(lambda a: a.astype(np.complex128 if a.dtype == np.float64 else np.float64)),
    "halves": first_array(lambda a: a.astype(np.float16)),
    "truths": first_array(lambda a: a.astype(bool)),
    "texts": first_array(lambda a: a.astype("<U8")),
    "complex numbers": first_array(lambda a: a.astype(np.complex64)),
    "one NaN": one_number(np.nan),
    "one infinity": one_number(-np.inf),
    "1e38": one_number(1e38),
    "a million and a half": one_number(-1.5e6),
    "no metrics": lambda content: RecordDict({"arrays": content["arrays"]}),
    "no examples": with_metrics({}, without="num-examples"),
    "negative examples": with_metrics({"num-examples": -1}),
    "half an example": with_metrics({"num-examples": 1.5}),
    "endless examples": with_metrics({"num-examples": 2**62}),
    "a NaN metric": with_metrics({"loss": float("nan")}),
    "an infinite metric": with_metrics({"loss": float("inf")}),
    "a large metric": with_metrics({"loss": 1e300}),
    "a list as metric": with_metrics({"loss": [1.0, 2.0]}),
    "an escape as metric": with_metrics({ESCAPE: 1.0}),
    "a metric name of a megabyte": with_metrics({MEGABYTE: 1.0}),
    "a metric name with a break": with_metrics({"a\nb": 1.0}),
    "half a step": with_metrics({"steps": 0.5}),
    "negative steps": with_metrics({"steps": -1.0}),
    "endless steps": with_metrics({"steps": 1e15}),
    "metrics of another kind": lambda c: RecordDict({"arrays": c["arrays"], "metrics": ConfigRecord({"loss": "low"})}),
    "arrays of another kind": lambda c: RecordDict({"arrays": ConfigRecord({"w": 1}), "metrics": c["metrics"]}),
    "nothing at all": lambda content: RecordDict({}),
    "an error": raised("Traceback\nValueError: out of luck"),
    "an error of a megabyte": raised(MEGABYTE),
    "an error of many lines": raised("line\n" * 200_000),
    "an error without words": raised(""),
    "an error with an escape": raised(f"{ESCAPE} \u2028 \u202e"),
    "an error of no known code": raised("what", 9999),
}  # fmt: skip
# Packed arrays that are none: one parser reads them, whoever sends them.
BLOCKS: dict[str, Spoil] = {
    "a block of nothing": with_block(lambda b: b""),
    "a block cut short": with_block(lambda b: b[:-1]),
    "a block and more": with_block(lambda b: b + bytes(4)),
    "a block of noise": with_block(lambda b: bytes(range(256)) * 8),
    "an endless header": with_block(lambda b: (2**60).to_bytes(8, "little") + b[8:]),
    "a header that is a list": with_header(lambda h: [h]),
    "a deep header": with_block(lambda b: (10**5).to_bytes(8, "little") + b"[" * 10**5 + b[8:]),
    "a header without order": with_header(lambda h: {k: v for k, v in h.items() if k != "__metadata__"}),
    "an order of others": with_header(lambda h: h | {"__metadata__": {"order": '["x"]'}}),
    "an order of nothing": with_header(lambda h: h | {"__metadata__": {"order": "[]"}}),
    "an order of lists": with_header(lambda h: h | {"__metadata__": {"order": "[[1]]"}}),
    "an order that is text": with_header(lambda h: h | {"__metadata__": {"order": MEGABYTE}}),
    "a type of another library": entries(lambda e: e.update(dtype="BF16")),
    "a shape larger than its bytes": entries(lambda e: e.update(shape=[2**40, *e["shape"]])),
    "bytes of another array": entries(lambda e: e.update(data_offsets=[0, 4])),
    "an array beside the block": beside,
}  # fmt: skip


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


Make = Callable[[Chain, Path], Recording]


def _houses(name: str, partition: int, stage: str, changes: dict[str, Any]) -> Make:
    def make(chain: Chain, folder: Path) -> Recording:
        config = chain.config(f"hostile-{name}", stage, **changes)
        return recording(config, harness.recorded(config), lambda p, c: p == partition)

    return make


def _silos(scenario: str) -> Make:
    def make(chain: Chain, folder: Path) -> Recording:
        config = cdl_runs.config_of(
            folder / "cache", folder / "cdl", scenario, scenario=scenario, num_rounds=1
        )
        return recording(config, harness.recorded(config), lambda p, c: p == 1)

    return make  # fmt: skip


def _parties(partition: int, phase: str) -> Make:
    def make(chain: Chain, folder: Path) -> Recording:
        changes = {"parallel_episodes": 4, "num_rounds": 1, "round_length": 32, "step_limit": 5}
        config = fedrl_runs.config_of(folder / "cache", folder / "fedrl", phase, **changes)
        recorders: list[harness.Recorder] = []

        def wrap(grid: Any) -> Any:
            recorders.append(harness.Recorder(grid))
            return recorders[0]

        fedrl_runs.play(config, wrap)
        wanted = (partition, phase, 6)  # late enough for minibatches
        return recording(
            config, recorders[0], lambda p, c: (p, c["phase"], c.get("exchange")) == wanted
        )

    return make


SETUPS: dict[str, Make] = {
    "parallel": _houses("parallel", 1, "train", {}),
    "sequential": _houses("sequential", 1, "train", {"aggregation": "sequential"}),
    "shared": _houses("shared", 1, "train", {"client_optimizer": "shared"}),
    "language-encoder": _houses("lan", 0, "pre-explore", METHODS["fed-lan"]),
    "speaker": _houses("speaker", 1, "speaker", {}),
    "local": _houses("local", 1, "train", {"method": "local-only"}),
    "ring": _silos("ring"),
    "star": _silos("star"),
    "alpha": _parties(0, "learn-first"),
    "alpha acts": _parties(0, "act"),
    "beta": _parties(1, "answer"),
}


@pytest.fixture(scope="module")
def recordings(
    chain: Chain, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Recording]:
    """Each run is made when it is first asked for."""
    made: dict[str, Recording] = {}

    def get(setup: str) -> Recording:
        if setup not in made:
            made[setup] = SETUPS[setup](chain, tmp_path_factory.mktemp("recorded"))
        return made[setup]

    return get  # fmt: skip


HOUSES = ("parallel", "sequential", "shared", "language-encoder", "speaker", "local")
WHOLE = ("parallel", "ring", "beta")  # with all replies; the others with every third
CASES = [
    (setup, case)
    for n, setup in enumerate(SETUPS)
    for i, case in enumerate(SPOILT)
    if setup in WHOLE or i % 3 == n % 3
] + [(setup, case) for setup in ("parallel", "alpha") for case in BLOCKS]


def check_named(line: str, found: Recording) -> None:
    """One line, fit for a terminal, with the culprit and nobody else in it."""
    assert found.victim in line, line
    assert line.isprintable() and len(line) < 1500, line
    others = [n for n in found.roster.names if n != found.victim and n not in found.victim]
    assert not [n for n in others if f"{n}:" in line or f"'{n}'" in line], line


@pytest.mark.parametrize("setup", SETUPS)
def test_the_recorded_run_is_the_run(
    recordings: Callable[[str], Recording], tmp_path: Path, setup: str
) -> None:
    """One client answers with arrays one by one, which is as good."""
    run = replay(recordings(setup), tmp_path, one_by_one)
    assert [r["status"] for r in read_rows(run.path / HISTORY) if "status" in r].count("ok") > 3


@pytest.mark.parametrize(("setup", "case"), CASES)
def test_a_hostile_reply_fails_a_run_that_needs_all(
    recordings: Callable[[str], Recording], tmp_path: Path, setup: str, case: str
) -> None:
    found = recordings(setup)
    with pytest.raises(RunFailed) as failed:
        replay(found, tmp_path, (SPOILT | BLOCKS)[case])
    check_named(str(failed.value), found)
    (bad,) = [r for r in read_rows(tmp_path / "again" / HISTORY) if r.get("status", "ok") != "ok"]
    assert (bad["name"], len(bad["reason"]) < 600) == (found.victim, True)
    assert bad["reason"].isprintable()
    log = tmp_path / "again" / "errors.log"
    assert not log.exists() or (log.stat().st_size < 50_000 and b"\x1b" not in log.read_bytes())


@pytest.mark.parametrize("case", list(SPOILT)[::6])
@pytest.mark.parametrize("setup", ["parallel", "sequential", "language-encoder", "ring", "star"])
def test_a_hostile_reply_is_left_out_where_the_others_suffice(
    recordings: Callable[[str], Recording], tmp_path: Path, setup: str, case: str
) -> None:
    found = recordings(setup)
    run = replay(found, tmp_path, SPOILT[case], least=0.4)
    bad = {r["name"] for r in read_rows(run.path / HISTORY) if r.get("status", "ok") != "ok"}
    assert bad == {found.victim}


LOST = partial(with_metrics, {})
MISSING = {
    "parallel": "steps", "sequential": "steps", "shared": "steps", "language-encoder": "steps", "speaker": "steps",
    "local": "steps", "alpha acts": "ended",
}  # fmt: skip


@pytest.mark.parametrize("setup", MISSING)
def test_a_metric_that_the_server_goes_by_is_missed_by_name(
    recordings: Callable[[str], Recording], tmp_path: Path, setup: str
) -> None:
    found, metric = recordings(setup), MISSING[setup]
    with pytest.raises(RunFailed, match=f"rejected: metrics lack {metric}") as failed:
        replay(found, tmp_path, LOST(without=metric))
    check_named(str(failed.value), found)


STEPS: dict[str, Spoil] = {
    "lost": LOST(without="steps"),
    **{
        f"{n:g}": with_metrics({"steps": n})
        for n in (0.0, -1.0, 0.5, 1e3, 1e11, 1e300, math.nan, math.inf)
    },
}


@pytest.mark.parametrize(("setup", "case"), [(s, c) for s in HOUSES for c in STEPS])
def test_false_steps_are_left_out_where_the_others_suffice(
    recordings: Callable[[str], Recording], tmp_path: Path, setup: str, case: str
) -> None:
    """Nothing is counted, averaged or decayed by a number of steps that nobody was asked for."""
    run = replay(recordings(setup), tmp_path, STEPS[case], least=0.1)
    (bad,) = [r for r in read_rows(run.path / HISTORY) if r.get("status", "ok") != "ok"]
    assert (bad["name"], bad["status"]) == (recordings(setup).victim, "rejected")
    assert "steps" in bad["reason"]


ACTED: dict[str, Spoil] = {
    "an action that is none": with_arrays(lambda a: a | {"actions": a["actions"] + 10**6}),
    "actions below none": with_arrays(lambda a: a | {"actions": a["actions"] - 100}),
    "records of the future": with_arrays(lambda a: a | {"ids": a["ids"] + 10**9}),
    "records before the first": with_arrays(lambda a: a | {"ids": a["ids"] - 10**9}),
    "more ends than episodes": with_metrics({"ended": 1e6}),
    "fewer ends than none": with_metrics({"ended": -5.0}),
    "half an end": with_metrics({"ended": 0.5}),
}


@pytest.mark.parametrize("case", ACTED)
def test_alpha_is_named_for_what_beta_could_not_do(
    recordings: Callable[[str], Recording], tmp_path: Path, case: str
) -> None:
    found = recordings("alpha acts")
    with pytest.raises(RunFailed, match="holds numbers from") as failed:
        replay(found, tmp_path, ACTED[case])
    check_named(str(failed.value), found)
