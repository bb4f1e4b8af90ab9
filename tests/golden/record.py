"""What a run of tests/golden/runs.py left behind, as one JSON file a run: `python -m tests.golden.record`.

    machine   what decides whether fingerprints may be compared: processor, versions, threads
    model     a fingerprint of the final arrays, one of the last checkpoint's; names do not count
    rounds    the metrics of every round, and of the end of the run
    clients   one line per client and exchange: what it held, got and sent, and its metrics

Files hold no times, paths or ids of nodes: recording twice writes equal bytes.
"""

import argparse
import hashlib
import json
import platform
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from tests.golden.runs import RUNS, Plays

Outcome = dict[str, Any]
FOLDER = Path(__file__).parent
ROUND_KINDS = ("round", "closing")
COUNTS = ("status", "num-examples", "bytes-down", "bytes-up", "messages")
_CLIENT_KEYS = ("round", "kind", "name", "task", *COUNTS, "metrics")
# Instruction sets among which numerical libraries choose their kernels.
_VECTOR_SETS = ("sse4", "avx", "fma", "amx", "f16c", "asimd", "sve", "bf16")


def outcome_of(run: Path) -> Outcome:
    """What is compared of a finished run."""
    lines = (run / "history.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    checkpoint = max((run / "checkpoints").glob("round-*"))
    return {
        "machine": machine(),
        "model": {
            "final": fingerprint_of_file(run / "model.safetensors"),
            "checkpoint": fingerprint_of_file(checkpoint),
        },
        "rounds": [
            _kept(r, ("round", "kind", "metrics")) for r in rows if r["kind"] in ROUND_KINDS
        ],
        "clients": [_kept(r, _CLIENT_KEYS) for r in rows if r["kind"] not in ROUND_KINDS],
    }


def machine() -> dict[str, Any]:
    """Equal arithmetic to the last bit is expected only where all of this is equal."""
    return {
        "processor": _cpu_line("model name") or platform.processor(),
        "instructions": " ".join(_vector_sets()),
        "torch-kernels": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "torch-threads": torch.get_num_threads(),
    }


def fingerprint_of_file(path: Path) -> str:
    """Of all arrays in a safetensors file."""
    return fingerprint(safetensors.numpy.load(path.read_bytes()).values())


def fingerprint(arrays: Iterable[np.ndarray]) -> str:
    """SHA-256 over the sorted SHA-256 of every array's type, shape and bytes."""
    return hashlib.sha256("".join(sorted(map(_digest, arrays))).encode()).hexdigest()


def read_outcome(name: str) -> Outcome:
    """What was recorded of a run."""
    return dict(json.loads(_file_of(name).read_text(encoding="utf-8")))


def as_text(outcome: Outcome) -> str:
    """JSON with a history row on every line."""
    parts = []
    for key, value in outcome.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row, allow_nan=False) for row in value)
            parts.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, indent=1)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Carry the runs out in a temporary folder and write their files."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record")
    parser.add_argument("--only", action="append", choices=RUNS, metavar="NAME", help="repeatable")
    names = parser.parse_args().only or list(RUNS)
    with tempfile.TemporaryDirectory() as folder:
        plays = Plays(Path(folder), Path(folder) / "cache")
        for name in names:
            begin = time.monotonic()
            text = as_text(outcome_of(plays.folder(name)))
            _file_of(name).write_text(text, encoding="utf-8")
            print(f"{name}: {len(text)} bytes, {time.monotonic() - begin:.1f} s", flush=True)


def _file_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


def _kept(row: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: row[key] for key in keys if key in row}


def _digest(array: np.ndarray) -> str:
    head = f"{array.dtype.str}|{array.shape}|".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def _vector_sets() -> list[str]:
    flags = (_cpu_line("flags") or _cpu_line("Features")).split()
    return sorted(flag for flag in flags if any(part in flag for part in _VECTOR_SETS))


def _cpu_line(key: str) -> str:
    """A line of Linux's description of the first processor; "" elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((x.partition(":")[2].strip() for x in lines if x.split(":")[0].strip() == key), "")


if __name__ == "__main__":
    main()
