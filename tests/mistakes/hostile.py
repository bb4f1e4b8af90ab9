"""Runs that are recorded once and played again with one reply exchanged, so that no client has to compute."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.serverapp import Grid

from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.settings.config import RunSettings
from simulations.engines.inprocess import server_identity
from simulations.systems import System, settings_of
from strategies.runtime.flower_strategy import FedsuiteStrategy
from strategies.runtime.packing import (
    FORMAT,
    PACKED,
    arrays_of,
    is_packed,
    packed_record,
    plain_record,
)
from tests.harness import Recorder

Spoil = Callable[[RecordDict], RecordDict | Error]


@dataclass(frozen=True)
class Recording:
    """A run's messages, answer by answer; at: the reply to spoil; victim: who sends it."""

    system: System[Any]
    settings: RunSettings
    roster: Roster
    recorder: Recorder
    at: int
    victim: str


def recording(
    config: dict[str, Any], recorder: Recorder, wanted: Callable[[int, dict[str, Any]], bool]
) -> Recording:
    """Of a finished run; the reply to spoil is the first to a training task that is `wanted(partition, config)`."""
    system, settings = settings_of(config)
    roster = read_roster(folder_of(settings).path / ROSTER)
    nodes = sorted(recorder.get_node_ids(), reverse=True)  # as InProcessGrid numbers them
    for at, message in enumerate(recorder.sent):
        partition = nodes.index(message.metadata.dst_node_id)
        own = message.content["config"]
        assert isinstance(own, ConfigRecord)
        if message.metadata.message_type == "train" and wanted(partition, dict(own)):
            return Recording(system, settings, roster, recorder, at, roster.names[partition])
    raise AssertionError("no such reply")


class Replay(Grid):
    """Answers message n as it was answered then; one of them otherwise."""

    def __init__(self, recorded: Recorder, at: int, spoil: Spoil) -> None:
        self.recorded, self.at, self.spoil = recorded, at, spoil
        self.pushed = 0
        self.waiting: dict[str, Message] = {}

    def set_run(self, run: Any) -> None:
        """Nothing to set."""

    @property
    def run(self) -> Any:
        return self.recorded.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise AssertionError("messages are made by the loop")

    def get_node_ids(self) -> Iterable[int]:
        return self.recorded.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            content = self.recorded.received[self.pushed].content
            answer = self.spoil(content) if self.pushed == self.at else content
            reply = Message(answer, reply_to=message)
            self.waiting[message.metadata.message_id] = reply
            ids.append(message.metadata.message_id)
            self.pushed += 1
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.waiting.pop(i) for i in list(message_ids) if i in self.waiting]

    def send_and_receive(self, messages: Iterable[Message], **kwargs: Any) -> Iterable[Message]:
        raise AssertionError("the round loop pushes and pulls by itself")


def replay(found: Recording, folder: Path, spoil: Spoil, least: float = 1.0) -> RunFolder:
    """The server's half of the run once more, into another folder."""
    settings = dataclasses.replace(
        found.settings, results_dir=str(folder), name="again", min_reply_fraction=least
    )
    run = folder_of(settings)
    run.path.mkdir(parents=True)
    rounds = found.system.make_strategy(settings, found.roster)
    strategy = FedsuiteStrategy(rounds, settings, run, found.roster)
    with server_identity():
        strategy.run(Replay(found.recorder, found.at, spoil))
    return run


# --- what is wrong with a reply ----------------------------------------------------------------


def arrays_in(content: RecordDict) -> dict[str, np.ndarray]:
    record = content.get("arrays")
    assert record is None or isinstance(record, ArrayRecord)
    return {} if record is None else arrays_of(record)


def metrics_of(content: RecordDict) -> dict[str, Any]:
    record = content["metrics"]
    assert isinstance(record, MetricRecord)
    return dict(record)


def with_arrays(change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]) -> Spoil:
    """Other arrays, the rest as it was."""

    def spoil(content: RecordDict) -> RecordDict:
        changed = change(arrays_in(content))
        # What `pack` refuses, a hostile client sends as entries of their own.
        packable = all(np.asarray(v).dtype.kind in "fiub" for v in changed.values())
        record = (packed_record if packable else plain_record)(changed)
        return RecordDict({"arrays": record, "metrics": MetricRecord(metrics_of(content))})

    return spoil


def first_array(change: Callable[[np.ndarray], np.ndarray]) -> Spoil:
    """Another first array."""

    def spoil(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        name = next(iter(arrays))
        return arrays | {name: change(arrays[name])}

    return with_arrays(spoil)


def one_number(value: float) -> Spoil:
    """One number of the first array of floats, or of the first one."""

    def spoil(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        floats = [k for k, v in arrays.items() if v.dtype.kind == "f"] or list(arrays)
        array = arrays[floats[0]]
        array.reshape(-1)[0] = value if array.dtype.kind == "f" else np.int64(2**62)
        return arrays

    return with_arrays(spoil)


def one_by_one(content: RecordDict) -> RecordDict:
    """The same arrays, not packed: what a client of somebody else's sends."""
    return RecordDict({**content, "arrays": plain_record(arrays_in(content))})


def with_block(change: Callable[[bytes], bytes]) -> Spoil:
    """Other bytes where the packed arrays are, the rest as it was."""

    def spoil(content: RecordDict) -> RecordDict:
        record = content["arrays"]
        assert isinstance(record, ArrayRecord) and is_packed(record)
        block = change(record[PACKED].data)
        spoilt = ArrayRecord({PACKED: Array("uint8", (len(block),), FORMAT, block)})
        return RecordDict({**content, "arrays": spoilt})

    return spoil


def with_header(change: Callable[[dict[str, Any]], Any]) -> Spoil:
    """Another header before the packed arrays."""

    def spoil(block: bytes) -> bytes:
        end = 8 + int.from_bytes(block[:8], "little")
        header = json.dumps(change(json.loads(block[8:end]))).encode()
        return len(header).to_bytes(8, "little") + header + block[end:]

    return with_block(spoil)


def entries(change: Callable[[dict[str, Any]], Any]) -> Spoil:
    """The header with its first array's entry changed in place."""

    def spoil(header: dict[str, Any]) -> dict[str, Any]:
        change(next(v for k, v in header.items() if k != "__metadata__"))
        return header

    return with_header(spoil)


def beside(content: RecordDict) -> RecordDict:
    """One more array beside the packed ones."""
    record = content["arrays"]
    assert isinstance(record, ArrayRecord)
    both = {**record, "extra": Array(np.zeros(3, np.float32))}
    return RecordDict({**content, "arrays": ArrayRecord(both)})


def with_metrics(change: dict[str, Any], without: str = "") -> Spoil:
    """Other metrics, the rest as it was."""

    def spoil(content: RecordDict) -> RecordDict:
        metrics = {k: v for k, v in metrics_of(content).items() if k != without}
        rest = {k: v for k, v in content.items() if k != "metrics"}
        return RecordDict({**rest, "metrics": MetricRecord(metrics | change)})

    return spoil


def raised(text: str, code: int = 2) -> Spoil:
    return lambda _: Error(code, text)
