"""Run folders as runs leave them, written by hand: reports and histories are read from these in no time."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsuite.history import HISTORY, TIMINGS
from fedsuite.roster.members import Member, Roster, write_roster
from fedsuite.settings.config import to_flat
from simulations.systems import load_system

HOSTILE = ("<script>alert(1)</script>", r"50%_&$x$#{}~^\end{table} | `a` **b**", "oak \x1b[31mred")
BYTES = 1000


def client_row(number: int, partition: int, name: str, task: str, **more: Any) -> dict[str, Any]:
    """A client's line of one exchange."""
    up = BYTES if task == "train" else 0
    row = {
        "round": number,
        "kind": "client",
        "partition": partition,
        "name": name,
        "task": task,
        "status": "ok",
    }
    return {
        **row,
        "reason": "",
        "num-examples": 9,
        "bytes-down": BYTES,
        "bytes-up": up,
        "metrics": {},
    } | more


def round_row(number: int, kind: str = "round", **metrics: float) -> dict[str, Any]:
    return {"round": number, "kind": kind, "metrics": metrics}


def write_run(
    folder: Path,
    system: str,
    rows: Iterable[Mapping[str, Any]],
    settings: Mapping[str, Any] | None = None,
    status: str = "completed",
    members: Sequence[Member] = (),
    facts: Mapping[str, Any] | None = None,
    **record: Any,
) -> Path:
    """A run with these lines, and a second for each round."""
    folder.mkdir(parents=True)
    lines = list(rows)
    _write_lines(folder / HISTORY, lines)
    rounds = [row for row in lines if row["kind"] == "round"]
    _write_lines(folder / TIMINGS, [{**row, "seconds": 1.0} for row in rounds])
    flat = to_flat(load_system(system).config_class()) | {"system": system, **(settings or {})}
    (folder / "config.json").write_text(json.dumps(flat))
    standing = {"status": status, "error": "", "started": "2026-01-02T03:04:05+00:00", "ended": ""}
    versions = {"versions": {"fedsuite": "0.1.0"}}
    (folder / "run.json").write_text(json.dumps(standing | versions | record))
    if members:
        write_roster(folder / "roster.json", Roster(tuple(members), facts or {}))
    return folder


def write_experiment(folder: Path, labels: Sequence[str]) -> Path:
    """The record of an experiment of runs that lie there."""
    runs = [
        {"name": label, "settings": json.loads((folder / label / "config.json").read_text())}
        for label in labels
    ]
    (folder / "experiment.json").write_text(json.dumps({"format": 1, "runs": runs}))
    return folder


def _write_lines(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def houses_run(
    folder: Path, seed: int, score: float, names: Sequence[str] = ("oak", "elm"), **more: Any
) -> Path:
    """A FedVLN run of two rounds, evaluated before and after; the last house is the worst."""
    rows: list[dict[str, Any]] = []
    for number, share in ((0, 0.1), (1, None), (2, 1.0)):
        if number:
            rows += [client_row(number, p, n, "train") for p, n in enumerate(names[:number])]
        scores = {}
        if share is not None:
            for place, name in enumerate(names):
                own = {"val_unseen.sr": score * share / (place + 1), "val_unseen.count": 20.0}
                rows.append(client_row(number, place, name, "evaluate", metrics=own))
            scores = {"val_unseen.sr": score * share, "val_unseen.spl": score * share / 2}
        counts = {"local-steps": 10.0 * number, "serial-depth": 5.0 * number} if number else {}
        rows.append(round_row(number, **scores, **counts))
    rows.append(round_row(2, "closing"))
    settings = {"seed": seed, "num-rounds": 2, "name": folder.name, **more.pop("settings", {})}
    run = write_run(folder, "fedvln", rows, settings, **more)
    walker = {"random walk": {"val_unseen.sr": 0.05}}
    (run / "baselines.json").write_text(json.dumps(walker))
    return run


def silos_run(folder: Path, rmse: float = 0.2) -> Path:
    """A CDL run of three silos with one client, with baselines."""
    names = ["gaia", "rhea", "leto"]
    own = {f"silo.{i}.rmse": rmse * (i + 1) for i in range(3)}
    rows = [
        round_row(0, rmse=0.4, mae=0.3, **own),
        client_row(1, 0, "gaia..leto", "train"),
        round_row(1, **{"mixings": 10.0, "simulated-seconds": 0.5, "overlay-bytes": 3e6}),
        round_row(2, rmse=rmse, mae=0.1, **own, **{"mixings": 20.0, "simulated-seconds": 1.0}),
        round_row(2, "closing"),
    ]
    member = Member(
        "gaia..leto", "silo", 30, {"silos": [0, 1, 2], "names": names, "frames": [10] * 3}
    )
    settings = {"num-rounds": 2, "federation.silos-per-client": 3, "name": folder.name}
    run = write_run(folder, "cdl", rows, settings, members=[member], facts={"silos": 3})
    both = {
        "constant": {"rmse": 0.31, "mae": 0.2},
        "random": {"rmse": 0.4, "mae": 0.3},
        "silos": [{"name": name, "rmse": 0.3, "mae": 0.2} for name in names],
    }
    (run / "baselines.json").write_text(json.dumps(both))
    return run


def parties_run(folder: Path, method: str, fold: int, success: float) -> Path:
    """A FedRL run on maps, tested without noise and with it."""
    rows = [client_row(1, p, n, "train", messages=40) for p, n in enumerate(("alpha", "beta"))]
    for n in (1, 2):
        valid = {"valid.success-rate": success * n / 2, "valid.average-reward": 1.0 * n}
        rows.append(round_row(n, **valid, **{"train.updates": 50.0}))
    tests = {"test.success-rate": success, "test.average-reward": 7.0}
    noisy = {"test-noisy.success-rate": success + 0.1, "test-noisy.average-reward": 8.0}
    ended = {"best-round": 2.0, "selected-round": 2.0, "released.0": 100.0, "released.1": 200.0}
    rows.append(round_row(2, "closing", **tests, **noisy, **ended))
    settings = {
        "num-rounds": 2,
        "federation.method": method,
        "data.fold": fold,
        "name": folder.name,
    }
    return write_run(folder, "fedrl", rows, settings)
