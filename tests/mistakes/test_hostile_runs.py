"""Whole runs with one client whose replies are other bytes each round: with min-reply-fraction = 0.5 it is as if it were
missing; where every party is needed, the run ends in one line."""

import io
import itertools
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.serverapp import Grid

from fedsuite.arrays import fingerprint
from fedsuite.history import HISTORY, read_rows
from fedsuite.roster.members import ROSTER, write_roster
from fedsuite.runs.folder import folder_of
from simulations.client_app import app as client_app
from simulations.commands import cli
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.systems import settings_of
from strategies.runtime.flower_strategy import FedsuiteStrategy
from strategies.runtime.packing import FORMAT, PACKED, packed_record, plain_record
from tests import cdl_runs, fedrl_runs
from tests.fedvln_runs import chain_in
from tests.harness import Recorder, exit_code_of, prepared, write_settings
from tests.mistakes.hostile import arrays_in
from tests.mistakes.refusing import said

Spoil = Callable[[RecordDict], RecordDict | Error]


def first_data(data: Callable[[bytes], bytes]) -> Spoil:
    """The arrays one by one, the first of them with other bytes."""

    def spoil(content: RecordDict) -> RecordDict:
        record = plain_record(arrays_in(content))
        first = next(iter(record.values()))
        first.data = data(first.data)
        return RecordDict({**content, "arrays": record})

    return spoil


def archived(data: bytes) -> bytes:
    file = io.BytesIO()
    np.savez(file, w=np.load(io.BytesIO(data)))
    return file.getvalue()


def header_of(shape: bytes) -> bytes:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s" % shape
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def many_names(content: RecordDict) -> RecordDict:
    at = {f"x{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(200_000)}
    header = json.dumps({"__metadata__": {"order": json.dumps(list(at))}, **at}).encode()
    block = len(header).to_bytes(8, "little") + header
    record = ArrayRecord({PACKED: Array("uint8", (len(block),), FORMAT, block)})
    return RecordDict({**content, "arrays": record})


def with_metric(value: Any) -> Spoil:
    def spoil(content: RecordDict) -> RecordDict:
        metrics = content["metrics"]
        assert isinstance(metrics, MetricRecord)
        return RecordDict({**content, "metrics": MetricRecord({**metrics, "loss": value})})

    return spoil


def with_lies(content: RecordDict) -> RecordDict:
    record = plain_record(arrays_in(content))
    for array in record.values():
        array.dtype, array.shape = "object", (10**30,)
    return RecordDict({**content, "arrays": record})


SPOILT: dict[str, Spoil] = {
    "nothing": first_data(lambda data: b""),
    "10^13 numbers": first_data(lambda data: header_of(b"10000000000000,), }")),
    "10^30 numbers": first_data(lambda data: header_of(b"1%s,), }" % (b"0" * 30))),
    "no end": first_data(lambda data: header_of(b"2, ")),
    "an npz": first_data(archived),
    "cut": first_data(lambda data: data[:-1]),
    "lies": with_lies,
    "many names": many_names,
    "more": lambda c: RecordDict({**c, "arrays": packed_record({**arrays_in(c), "x": np.ones(3)})}),
    "a number of 1,300 bits": with_metric(10**400),
    "a list": with_metric([1.0] * 10**5),
    "timing": lambda c: RecordDict({**c, "timing": MetricRecord({"seconds": 1}), "metrics": ConfigRecord()}),
}  # fmt: skip
GONE = Error(3, "node unavailable")


class Hostile(Recorder):
    """One client's answers to training tasks are spoilt, each in the next way."""

    def __init__(self, inner: Grid, spoils: Iterable[Spoil]) -> None:
        super().__init__(inner)
        self.victim = sorted(inner.get_node_ids(), reverse=True)[1]  # partition 1
        self.spoils = iter(spoils)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(self.inner.pull_messages(message_ids))
        for reply in replies:
            if reply.metadata.src_node_id == self.victim and (
                reply.metadata.message_type == "train"
            ):
                spoilt = next(self.spoils)(reply.content)
                kind = "_error" if isinstance(spoilt, Error) else "_content"
                reply.__dict__ |= {"_content": None, "_error": None, kind: spoilt}
        return replies


def play(config: dict[str, Any], spoils: Iterable[Spoil]) -> tuple[str, list[dict[str, Any]]]:
    """A run in this process, without its report, one client's answers spoilt; its result's SHA-256 and its history."""
    roster, (system, settings) = prepared(config), settings_of(config)
    run = folder_of(settings)
    run.path.mkdir(parents=True)
    write_roster(run.path / ROSTER, roster)
    rounds = system.make_strategy(settings, roster)
    grid = Hostile(InProcessGrid(client_app, len(roster), config), spoils)
    with server_identity():
        result = FedsuiteStrategy(rounds, settings, run, roster).run(grid)
    return fingerprint(result.state.arrays), read_rows(run.path / HISTORY)


THIRDS = [dict(list(SPOILT.items())[n::3]) for n in range(3)]
ROUNDS: dict[str, Any] = {"min_reply_fraction": 0.5, "evaluate_every": 0, "checkpoint_every": 6}


def houses(base: Path, folder: Path, name: str, rounds: int) -> dict[str, Any]:
    short = {**ROUNDS, "results_dir": str(folder), "num_rounds": rounds}
    return chain_in(base, __name__).config(name, "train", **short)


def silos(base: Path, folder: Path, name: str, rounds: int) -> dict[str, Any]:
    short = {**ROUNDS, "scenario": "star", "num_rounds": rounds}
    return cdl_runs.config_of(base / "hostile-cache", folder, name, **short)


def ring(base: Path, folder: Path, name: str, rounds: int) -> dict[str, Any]:
    short = {**ROUNDS, "scenario": "ring", "num_rounds": rounds}
    return cdl_runs.config_of(base / "hostile-cache", folder, name, **short)


@pytest.mark.parametrize(("make", "spoils"), list(zip((houses, silos, ring), THIRDS, strict=True)))
def test_the_others_are_as_if_the_hostile_client_were_missing(
    make: Any, spoils: dict[str, Spoil], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base, rounds = tmp_path_factory.getbasetemp(), len(spoils)
    result, rows = play(make(base, tmp_path, "hostile", rounds), spoils.values())
    without = itertools.repeat(lambda content: GONE)
    same, expected = play(make(base, tmp_path, "gone", rounds), without)
    assert result == same
    bad = [row for row in rows if row.get("status", "ok") != "ok"]
    assert [row["status"] for row in bad] == ["rejected"] * rounds
    for row, case in zip(bad, spoils, strict=True):
        assert row["reason"] and row["reason"].isprintable() and len(row["reason"]) < 600, case
    dropped = [row for row in expected if row.get("status", "ok") != "ok"]
    assert {row["status"] for row in dropped} == {"missing"}
    assert [(r["round"], r["name"]) for r in dropped] == [(r["round"], r["name"]) for r in bad]
    assert len({row["name"] for row in bad}) == 1
    assert [r for r in rows if r not in bad] == [r for r in expected if r not in dropped]


@pytest.mark.parametrize("case", SPOILT)
def test_a_hostile_party_ends_the_run_in_one_line(
    case: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Through the command line: beta sends it as its first answer of numbers."""
    cache = tmp_path_factory.getbasetemp() / "hostile-parties"
    changes = {"parallel_episodes": 4, "num_rounds": 1, "round_length": 8, "step_limit": 4}
    config = fedrl_runs.config_of(cache, tmp_path, "run", **changes)
    file = write_settings(tmp_path / "run.toml", settings_of(config)[1])

    class Beta(InProcessGrid):
        def _reply(self, message: Message) -> Message:
            reply = super()._reply(message)
            own = message.content.get("config")
            beta = message.metadata.dst_node_id == min(self.contexts)
            if beta and own and own.get("phase") == "propose":
                reply.content = SPOILT[case](reply.content)
            return reply

    monkeypatch.setattr("simulations.engines.inprocess.InProcessGrid", Beta)
    monkeypatch.setattr(sys, "argv", ["fedsuite", "run", str(file), "--engine", "inprocess"])
    code = exit_code_of(cli.main)
    captured = capsys.readouterr()
    line = said((code, captured.out, captured.err), 1)
    assert "beta: rejected: " in line and "alpha" not in line, line
