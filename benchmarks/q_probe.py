"""What a probe reads of beta's window from one Q-vector, over clipping bounds and noise, on finished Grid-World runs.

The parties learn as their run says; c and sigma are set when the probe reads. Every reading adds a line to FILE, and
readings that are there already are not made again. --table prints accuracy / AUC, means over the runs of FILE.

    fedsuite run fedrl/gridworld-8 --only fedrl --seeds 0,1,2 --set learning.round-length=1280 --set name=probe-8
    python -m benchmarks.q_probe FILE runs/probe-8/fedrl/seed-*
    python -m benchmarks.q_probe FILE --table
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.exposure import open_parties, probe
from fedsuite.history.finished import open_finished
from fedsuite.reports.tables import markdown_table

BOUNDS, SIGMAS = (0.0, 20.0, 5.0, 1.0), (0.0, 0.5, 1.0, 2.0)


def read(file: Path, folder: Path) -> None:
    """All cells of the table that FILE lacks for this run."""
    run, config = open_finished(folder, FedRLConfig)
    beta = open_parties(config, run.path)[1][0]
    there = {(line["run"], line["c"], line["sigma"]) for line in lines_of(file)}
    for bound in BOUNDS:
        for sigma in SIGMAS:
            if (run.path.name, bound, sigma) in there:
                continue
            found = probe(beta, bound, sigma, config.seed)
            line = {"run": run.path.name, "seed": config.seed, "c": bound, "sigma": sigma}
            line |= {"accuracy": found.accuracy.value, "accuracy-low": found.accuracy.low}
            line |= {"accuracy-high": found.accuracy.high, "auc": found.auc.value}
            line |= {"majority": found.majority, "vectors": found.n}
            with file.open("a", encoding="utf-8") as out:
                print(json.dumps(line), file=out)
            print(f"{run.path.name} c {bound:g} sigma {sigma:g}: {found.accuracy.value:.3f}")


def lines_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def table(file: Path) -> None:
    lines, rows = lines_of(file), []
    for bound in BOUNDS:
        row: dict[str, object] = {"c": f"{bound:g}" if bound else "none"}
        for sigma in SIGMAS:
            own = [x for x in lines if (x["c"], x["sigma"]) == (bound, sigma)]
            means = [
                float(np.mean([x[k] for x in own])) if own else math.nan
                for k in ("accuracy", "auc")
            ]
            row[f"sigma {sigma:g}"] = "{:.3f} / {:.3f}".format(*means)
        rows.append(row)
    print(markdown_table(rows))
    print(
        json.dumps({"name": "q_probe", "majority": float(np.mean([x["majority"] for x in lines]))})
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for folder in asked.runs:
        read(asked.file, folder)
    if asked.table:
        table(asked.file)


if __name__ == "__main__":
    main()
