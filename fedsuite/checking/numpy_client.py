"""Holds a client, a NumPyClient or anything with its methods, to what the server relies on."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedsuite.arrays import fingerprint
from fedsuite.checking.contract import as_text, check_reply, check_scalars, no_exception, require
from fedsuite.federation import ClientInfo, Reply, Task
from fedsuite.storage.files import sha256_of

NAMES = "array-names"
OLD = "private state newer than resume-round is not dropped, or draws do not come from fedsuite.randomness"


def check_client(
    client: Any,
    tasks: Sequence[Task],
    *,
    folder: Path | None = None,
    make: Callable[[], Any] | None = None,
) -> None:
    """Ask who it is, have the tasks done, twice from the same private state; ContractError for a broken clause.

    tasks: what it gets in a run, in order; config["round"] says of which round (1 if it does not say).
    folder: its private folder, inside a folder of everybody's. make: makes it anew, as another process would.

    * get_properties returns partition (int), name (text of one line), num-examples (int >= 0), all else scalars
    * fit returns (list of arrays, int, dict), evaluate (float, int, dict); as many arrays as names, as the task asks
    * names, shapes and types of arrays are kept, numbers are finite, metrics are numbers
    * nothing that it is handed is changed; nothing is written outside `folder`
    * with resume-round later private state is dropped: the same tasks give the same bytes, from the start and from
      the last round on, also by a new object (`make`)
    * arrays of unknown names are refused
    """
    make = make or (lambda: client)
    tasks = [replace(t, config={"round": 1, "checkpoint-rounds": "0", **t.config}) for t in tasks]
    info, outside = info_of(client), _outside(folder)
    first = [as_text(ask(client, task)) for task in tasks]
    other = make()
    require(info_of(other) == info, "get_properties", info, "another answer later", OLD)
    again = [as_text(ask(other, task)) for task in tasks]
    require(again == first, "the same tasks again", "the same bytes", "others", OLD)
    last = max((int(t.config["round"]) for t in tasks), default=0)
    if last:
        other, where = make(), f"round {last} after resume-round {last - 1}"
        info_of(other, last - 1)
        later = [i for i, t in enumerate(tasks) if t.config["round"] == last]
        same = [as_text(ask(other, tasks[i])) for i in later] == [first[i] for i in later]
        require(same, where, "the same bytes", "others", OLD)
    other = make()
    info_of(other)
    for task in [t for t in tasks if t.kind == "train" and t.arrays][:1]:
        _check_refusal(other, task)
    info_of(other)
    found = _outside(folder)
    wrote = sorted(k for k in outside.keys() | found.keys() if outside.get(k) != found.get(k))
    require(not wrote, "files", f"nothing written outside {folder}", wrote[:3], "a wrong folder")


def info_of(client: Any, resume_round: int = 0) -> ClientInfo:
    """Who it says it is, checked; its private state newer than `resume_round` is gone after that."""
    with no_exception("get_properties", "resume-round 0 must work before anything was saved"):
        found = client.get_properties({"resume-round": resume_round})
    require(isinstance(found, dict), "get_properties", "a dict", type(found).__name__, "no return")
    check_scalars("get_properties", found)
    cause = "the key is missing or misspelt, or a numpy number"
    for key, kind in (("partition", int), ("name", str), ("num-examples", int)):
        value, shown = found.get(key), f"{key} ({kind.__name__})"
        require(type(value) is kind, "get_properties", shown, value, cause)
    name, counts = found.pop("name"), (found.pop("partition"), found.pop("num-examples"))
    good = name and name == name.strip() and "\n" not in name
    require(good, "get_properties", "a name of one line without blanks around", name, "input")
    require(min(counts) >= 0, "get_properties", "counts >= 0", counts, "a placeholder such as -1")
    return ClientInfo(counts[0], name, counts[1], found)


def ask(client: Any, task: Task) -> Reply:
    """Have a task done as the client app does; the checked reply."""
    arrays, where = deepcopy(task.arrays), f"{task.kind}, round {task.config.get('round')}"
    config: dict[str, Any] = {**task.config, NAMES: "\n".join(arrays)}
    given = dict(config)
    with no_exception(where, "a bug, or a task that does not fit"):
        method = client.fit if task.kind == "train" else client.evaluate
        answer = method(list(arrays.values()), config)
    first, shown = (list, "list") if task.kind == "train" else ((float, np.floating), "float")
    good = isinstance(answer, tuple) and len(answer) == 3 and isinstance(answer[0], first)
    good = good and isinstance(answer[2], dict)
    require(good, where, f"({shown}, int, dict)", answer, "a wrong return")
    sent, count, metrics = answer[0], answer[1], dict(answer[2])
    same = fingerprint(arrays) == fingerprint(task.arrays) and config == given
    require(same, where, "its arrays and config as they were", "others", "arithmetic in place")
    names = str(metrics.pop(NAMES, given[NAMES]))
    if task.kind == "evaluate":
        sent, names, metrics = [], "", {"loss": float(answer[0]), **metrics}
    listed = names.split("\n") if names else []
    cause = "use clients.numpy_client_app.named_reply"
    require(len(sent) == len(listed), where, f"{len(listed)} arrays ({listed})", len(sent), cause)
    reply = Reply(task.partition, dict(zip(listed, sent, strict=True)), count, metrics)
    check_reply(where, task, reply)
    return reply


def _check_refusal(client: Any, task: Task) -> None:
    first, *others = task.arrays
    config = {**task.config, NAMES: "\n".join([f"{first}-unknown", *others])}
    try:
        client.fit([*deepcopy(task.arrays).values()], config)
    except Exception:
        return
    cause = "arrays are taken by their order; use clients.numpy_client_app.named_arrays"
    require(False, "fit", f"an error for the unknown array {first}-unknown", "an answer", cause)


def _outside(folder: Path | None) -> dict[str, str]:
    """Digest of every file beside `folder`."""
    if folder is None:
        return {}
    files = (p for p in folder.parent.rglob("*") if p.is_file() and folder not in p.parents)
    return {str(p): sha256_of(p.read_bytes()) for p in files}
