"""What the clients of one round cost the server, from parts measured here: `python -m benchmarks.server_cost`.

    python -m benchmarks.server_cost [--parameters 465000] [--fan-out 100] [--gbit 10]

Measured, in CPU seconds on one core: for each client, packing its message and unpacking its reply into and out of Flower's
objects with their SHA-256, checking the reply, adding it to the mean, and two lines of history and timings; for each round,
a checkpoint that knows when every client trained last, and drawing the participants of ten times as many registered
clients. These two are measured for 10,000 and 100,000 clients and taken to grow in proportion.

Computed from that: a round of 10^3 to 10^6 clients at one server (flat), and at a tree of servers with `--fan-out` children
each, where every inner server merges its children's means and hands one reply up. The tree's seconds are those along one way
from a client to the root, since servers of a level work side by side. Bytes over the root's link are given with the seconds
at `--gbit`, an assumption. Waiting for clients is left out, and so is all that a network adds.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from benchmarks.report import cpu_seconds, finish, median
from fedsuite.arrays import Arrays
from fedsuite.averaging.merging import mean, server_step, shares
from fedsuite.averaging.step import Step
from fedsuite.federation import ClientInfo, Scalar, ServerState, Task
from fedsuite.history import HistoryWriter
from fedsuite.reports.tables import markdown_table
from fedsuite.runs.versions import Checkpoints, RunState
from simulations.engines.inprocess import server_identity
from strategies.chains import trainers
from strategies.participation import Drawn
from strategies.runtime.messages import RawReply, TaskMessages, read_reply
from strategies.runtime.records import RoundRecords
from strategies.runtime.reply_checks import check_reply

REPLIES, KNOWN, REGISTERED = 20, (10_000, 100_000), 10
METRICS = {
    "steps": 22.0,
    "imitation-loss": 1.5,
    "sampled-loss": 0.0,
    "gradient-norm": 3.1,
    "decisions": 990.0,
}


def model_of(parameters: int) -> Arrays:
    """As many float32 in 30 arrays, as an agent has them."""
    rng = np.random.default_rng(0)
    sizes = np.full(30, parameters // 30)
    return {f"layer-{i}": rng.standard_normal(n).astype(np.float32) for i, n in enumerate(sizes)}


def reply_to(message: Message, arrays: Arrays) -> Message:
    content: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {
        "arrays": ArrayRecord({k: Array(v) for k, v in arrays.items()}),
        "metrics": MetricRecord({"num-examples": 180, **METRICS}),
        "timing": ConfigRecord({"seconds": 1.0}),
    }
    return Message(RecordDict(content), reply_to=message)


def packed(message: Message) -> dict[str, bytes]:
    """The objects of a message as they travel."""
    return {key: thing.deflate() for key, thing in get_all_nested_objects(message).items()}


def unpacked(message: Message, objects: Mapping[str, bytes], task: Task) -> RawReply:
    found = inflate_object_from_contents(message.object_id, dict(objects))
    assert isinstance(found, Message)
    return read_reply(found, task)


def seconds(work: Callable[[], object], repeats: int = 9) -> float:
    return median(cpu_seconds(work, repeats))


def per_client(arrays: Arrays) -> dict[str, float]:
    """CPU seconds of the parts that every client of a round takes, by what is done."""
    task = Task(1, "train", arrays, {"steps": 22}, needs=("steps",))
    told: dict[str, Scalar] = {
        "steps": 22,
        "round": 3,
        "checkpoint-rounds": "1,2",
        "last-trained": 1,
    }

    factory = TaskMessages(10.0)  # one for all messages of an exchange

    def send() -> Message:
        return factory.message(task, 7, told)

    message = send()
    reply = reply_to(message, arrays)
    objects = packed(reply)
    raw = unpacked(reply, objects, task)
    checked = check_reply(task, raw, 10.0, "house")
    assert checked.status == "ok"

    def lines() -> None:
        records = RoundRecords(3, "", {1: "house"})
        records.checked(task, checked)
        timing = records.timed(task, raw, 1.0)
        history.append(records.history)
        timings.append([timing] if timing else [])

    clients = [{k: v + np.float32(i) for k, v in arrays.items()} for i in range(REPLIES)]
    with tempfile.TemporaryDirectory() as folder:
        history, timings = (HistoryWriter(Path(folder) / name) for name in ("history", "timings"))
        found = {
            "packing a message": seconds(lambda: packed(send())),
            "unpacking a reply": seconds(lambda: unpacked(reply, objects, task)),
            "checking a reply": seconds(lambda: check_reply(task, raw, 10.0, "house")),
            "two lines": seconds(lines, 200),
        }
    few, many = (seconds(partial(mean, arrays, clients[:n], shares([1] * n))) for n in (2, REPLIES))
    found["merging a reply"] = max((many - few) / (REPLIES - 2), 0.0)
    found["a step of the server"] = few / REPLIES  # its fixed part, spread over few
    return found


def checkpoint(arrays: Arrays, trained: int) -> float:
    """CPU seconds of a checkpoint of a run in which so many clients have trained."""
    known = {p: 3 for p in range(trained)}
    with tempfile.TemporaryDirectory() as folder:
        kept = Checkpoints(Path(folder))
        state = ServerState(arrays, {"server-learning-rate": 1.0})
        return seconds(lambda: kept.save_state(RunState(3, state, "x", {}, known)), 3)


def drawing(registered: int, rate: float) -> float:
    """CPU seconds of drawing a round's participants of so many registered clients."""
    clients = [ClientInfo(p, f"house-{p}", 18) for p in range(registered)]
    return seconds(lambda: Drawn(rate, 0)(Step(round=3), trainers(clients)), 3)


def line_through(work: Callable[[int], float], points: tuple[int, int]) -> Callable[[int], float]:
    """Seconds for any number, from those of two."""
    low, high = map(work, points)
    slope = (high - low) / (points[1] - points[0])
    return lambda n: max(low + slope * (n - points[0]), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, default=465_000)
    parser.add_argument("--fan-out", type=int, default=100)
    parser.add_argument("--gbit", type=float, default=10.0)
    given = parser.parse_args()
    arrays = model_of(given.parameters)
    size = sum(v.nbytes for v in arrays.values())
    with server_identity():
        parts = per_client(arrays)
    fixed = parts.pop("a step of the server") * REPLIES
    parts_s = sum(parts.values())
    saved = line_through(lambda n: checkpoint(arrays, n), KNOWN)
    drawn = line_through(lambda n: drawing(n, 0.1), KNOWN)
    step = seconds(lambda: server_step(arrays, mean(arrays, [arrays], shares([1])))) + fixed
    for name, value in parts.items():
        print(f"{name}: {1e3 * value:.3f} ms of CPU a client")
    for n in KNOWN:
        print(
            f"checkpoint that knows {n:,} clients: {saved(n):.3f} s; drawing among {n:,}: {drawn(n):.4f} s"
        )
    print(f"merged step of the server: {1e3 * step:.2f} ms a round; a model: {size / 1e6:.2f} MB")
    rows, flat_s, tree_s = [], {}, {}
    for clients in (10**3, 10**4, 10**5, 10**6):
        once = saved(REGISTERED * clients) + drawn(REGISTERED * clients) + step
        levels = max(1, math.ceil(round(math.log(clients, given.fan_out), 9)))
        width = math.ceil(clients ** (1 / levels) - 1e-9)
        flat_s[clients] = clients * parts_s + once
        tree_s[clients] = levels * (width * parts_s + step) + once
        rows.append({
            "clients a round": f"{clients:,}", "flat, CPU s": f"{flat_s[clients]:,.1f}",
            "flat, replies held, GB": f"{clients * size / 1e9:,.1f}",
            "flat, link, s": f"{2 * clients * size * 8 / given.gbit / 1e9:,.0f}",
            "tree, levels x children": f"{levels} x {width}", "tree, s along one way": f"{tree_s[clients]:,.2f}",
            "of these once a round": f"{once:,.2f}",
            "tree, root's link, s": f"{2 * width * size * 8 / given.gbit / 1e9:,.2f}",
        })  # fmt: skip
    print(markdown_table(rows))
    print(time.strftime("%Y-%m-%d"))
    ratio = tree_s[10**6] / flat_s[10**4]
    finish(
        "server_cost",
        ratio,
        1.0,
        per_client_ms=round(1e3 * parts_s, 3),
        model_mb=round(size / 1e6, 2),
    )


if __name__ == "__main__":
    main()
