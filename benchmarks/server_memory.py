"""The most memory that a server needs for a round of large replies: `python -m benchmarks.server_memory`.

    python -m benchmarks.server_memory [--replies 1000] [--megabytes 50] [--spill-above 256] [--rules mean median]

Replies are made up, one by one, as they would come: each is packed and read as a message's arrays are, checked, and put on
disk where the round's exchange puts it (`spill-above`). Then a rule merges them, and the server steps. All of it is what
runs do; only clients and network are left out. A process of its own for each rule, so that each has its own peak (resident
memory, with NumPy, Flower and the interpreter).

So that disks of laptops suffice, replies differ in `--distinct` versions only, and every other file is a hard link to one of
those; the merge reads all of them. Time of writing is therefore that of the distinct ones.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.report import finish
from fedsuite.arrays import Arrays, fingerprint
from fedsuite.averaging import blocks
from fedsuite.averaging.merging import server_step, shares
from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.stored import Stored
from fedsuite.federation import Reply, Task
from fedsuite.messages.packing import pack, unpack
from strategies.runtime.messages import EXAMPLES, RawReply
from strategies.runtime.reply_checks import check_reply
from strategies.runtime.spill import Spill

ARRAYS, GOAL_MB = 10, 1000.0


def model_of(megabytes: int, seed: int) -> Arrays:
    """So many MB of float32 in ten arrays, of which the first holds half."""
    rng, numbers = np.random.default_rng(seed), megabytes * 10**6 // 4
    sizes = [numbers // 2] + [numbers // 2 // (ARRAYS - 1)] * (ARRAYS - 1)
    return {f"layer-{i}": rng.standard_normal(n, np.float32) for i, n in enumerate(sizes)}


def came(spill: Spill, server: Arrays, count: int, megabytes: int, distinct: int) -> list[Reply]:
    """Replies as an exchange has them when all have come."""
    task, replies = Task(0, "train", server), list[Reply]()
    for partition in range(count):
        if partition >= distinct and isinstance(last := replies[-distinct].arrays, Stored):
            file = spill.folder / f"{partition}-linked.numbers"
            os.link(last.file, file)
            stored = Stored(file, last.places)
            replies.append(replace(replies[-distinct], partition=partition, arrays=stored))
            continue
        arrays = unpack(pack(model_of(megabytes, partition % distinct + 1)), task.expected)
        checked = check_reply(task, RawReply(arrays, {EXAMPLES: 10 + partition}), 1.0)
        assert checked.reply is not None, checked.reason
        replies.append(spill.kept(replace(checked.reply, partition=partition)))
    return replies


def one(rule: str, given: argparse.Namespace) -> None:
    """One rule in this process."""
    blocks.HELD = given.held * 10**6
    with tempfile.TemporaryDirectory(prefix="fs-", dir=given.dir or None) as folder:
        server, start = model_of(given.megabytes, 0), time.monotonic()
        spill = Spill(Path(folder) / "spill", given.spill_above)
        replies = came(spill, server, given.replies, given.megabytes, given.distinct)
        there = time.monotonic()
        weights = shares([r.num_examples for r in replies])
        merge = Merge(MERGE_RULES[rule], given.tolerated if rule != "mean" else 0, name=rule)
        after, _ = server_step(server, merge(server, [r.arrays for r in replies], weights).delta)
        merged = time.monotonic()
        spilled = sum(isinstance(r.arrays, Stored) for r in replies)
        spill.empty()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    finish(
        f"server_memory {rule}", peak_mb / GOAL_MB, 1.0, peak_mb=round(peak_mb), replies=given.replies,
        megabytes=given.megabytes, spilled=spilled, coming_s=round(there - start, 1),
        merging_s=round(merged - there, 1), model=fingerprint(after)[:16],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replies", type=int, default=1000)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--spill-above", type=int, default=256, help="MB that stay in memory")
    parser.add_argument("--held", type=int, default=67, help="MB of a block of single numbers")
    parser.add_argument("--distinct", type=int, default=100, help="replies that differ")
    parser.add_argument("--tolerated", type=int, default=2)
    parser.add_argument(
        "--dir", default="", help="folder for the replies; a temporary one if not given"
    )
    parser.add_argument("--rules", nargs="+", default=["mean", "median", "trimmed-mean"])
    given = parser.parse_args()
    if len(given.rules) == 1:
        one(given.rules[0], given)
        return
    typed = [a for a in sys.argv[1:] if a not in ("--rules", *given.rules)]
    for rule in given.rules:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.server_memory", *typed, "--rules", rule], check=True
        )


if __name__ == "__main__":
    main()
