"""check_client accepts a client with private state on its disk, and names what is wrong with others.

The clients of our systems are held to it in test_check_system.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.numpy_client_app import named_arrays, named_reply
from fedsuite.checking import ContractError, check_client
from fedsuite.federation import Task
from fedsuite.runs.versions import Versions, checkpoint_rounds
from tests.harness import toy_settings
from tests.toy import ToyClient

W = {"w": np.arange(4, dtype=np.float32)}
TASKS = [Task(1, "train", W, {"round": n, "checkpoint-rounds": "0,1"}) for n in (1, 2)]
TASKS.append(Task(1, "evaluate", W, {"round": 2}))


class Right:
    """A client by its methods alone, with a momentum on its own disk."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.private = folder, Versions(folder)

    def get_properties(self, config):
        self.private.rollback(config["resume-round"])
        return self.properties()

    def properties(self) -> dict[str, Any]:
        return {"partition": 1, "name": "oak", "num-examples": 7, "width": 4}

    def fit(self, parameters, config):
        w = named_arrays(parameters, config)["w"]
        kept = self.private.load(config["round"])
        momentum = 0.5 * kept[0]["m"] + w if kept else w
        self.private.save(config["round"], {"m": momentum}, {})
        self.private.prune(checkpoint_rounds(config))
        return self.reply(w + momentum)

    def reply(self, w: np.ndarray) -> Any:
        return named_reply({"w": w}, 7, {"steps": 3, "loss": 0.5})

    def evaluate(self, parameters, config):
        return 0.5, 7, {"error": 0.25}


def test_a_right_one_and_the_toy_are_accepted(tmp_path: Path) -> None:
    own = tmp_path / "clients" / "oak"
    check_client(Right(own), TASKS, folder=own, make=lambda: Right(own))
    settings = toy_settings(tmp_path)
    folder = tmp_path / "run" / "clients" / "site-1"
    check_client(ToyClient(settings, 1), TASKS, folder=folder, make=lambda: ToyClient(settings, 1))


def fit_of(change: Callable[[Any, list[np.ndarray], dict[str, Any]], Any]) -> dict[str, Any]:
    return {"fit": change}


def properties(**changes: Any) -> dict[str, Any]:
    return {"properties": lambda self: {**Right.properties(self), **changes}}


def reply(change: Callable[[np.ndarray], Any]) -> dict[str, Any]:
    return {"reply": lambda self, w: change(w)}


def by_order(self, parameters, config):
    return list(parameters), 7, {"steps": 1}


def in_place(self, parameters, config):
    parameters[0] += 1
    return Right.fit(self, parameters, config)


def drawing(self, parameters, config):
    return self.reply(parameters[0] + np.random.default_rng().random(4).astype(np.float32))


def in_memory(self, parameters, config):
    self.count = getattr(self, "count", 0) + 1
    return self.reply(parameters[0] * np.float32(self.count))


def newest(self, parameters, config):
    kept = self.private.load(1000)
    w = parameters[0] + (kept[0]["m"] if kept else 0)
    self.private.save(config["round"], {"m": w}, {})
    return self.reply(w)


def elsewhere(self, parameters, config):
    (self.folder.parent / "elm").mkdir(parents=True, exist_ok=True)
    (self.folder.parent / "elm" / "note").write_text("mine")
    return Right.fit(self, parameters, config)


def unasked(self, parameters, config):
    config["seen"] = True
    return Right.fit(self, parameters, config)


CORPUS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({"properties": lambda self: None}, "get_properties: expected a dict, got NoneType"),
    "partition": (properties(partition=np.int64(1)), "partition: expected an int, float, str or bool"),
    "missing": (properties(name=1), "expected name (str), got 1"),
    "name": (properties(name=" oak"), "a name of one line without blanks around"),
    "count": (properties(**{"num-examples": -1}), "counts >= 0, got (1, -1)"),
    "list": (properties(splits=["a"]), "splits: expected an int, float, str or bool"),
    "two values": (reply(lambda w: ([w], 7)), "expected (list, int, dict), got ([array"),
    "no names": (reply(lambda w: ([w, w], 7, {})), "1 arrays (['w']), got 2"),
    "other names": (reply(lambda w: named_reply({"v": w}, 7, {})), "arrays ['w'], got ['v']"),
    "shape": (reply(lambda w: named_reply({"w": w[1:]}, 7, {})), "array w: expected ((4,), 'float32')"),
    "type": (reply(lambda w: named_reply({"w": w.astype(float)}, 7, {})), "float64 arithmetic"),
    "nan": (reply(lambda w: named_reply({"w": w * np.nan}, 7, {})), "expected finite arrays"),
    "examples": (reply(lambda w: named_reply({"w": w}, np.int64(7), {})), "a whole number of examples"),  # type: ignore[arg-type]
    "metric": (reply(lambda w: named_reply({"w": w}, 7, {"x": "bad"})), "metric x: expected a finite number"),
    "steps": (reply(lambda w: named_reply({"w": w}, 7, {"steps": 0.5})), "a whole number of steps"),
    "evaluation": ({"evaluate": lambda self, p, c: (7, {})}, "expected (float, int, dict), got (7, {})"),
    "raises": ({"evaluate": lambda self, p, c: c["missing"]}, "got KeyError: 'missing'"),
    "arrays changed": (fit_of(in_place), "its arrays and config as they were"),
    "config changed": (fit_of(unasked), "its arrays and config as they were"),
    "draws": (fit_of(drawing), "the same tasks again: expected the same bytes"),
    "memory": (fit_of(in_memory), "the same tasks again: expected the same bytes"),
    "no rollback": ({"get_properties": lambda self, c: self.properties(), "fit": newest}, "is not dropped"),
    "elsewhere": (fit_of(elsewhere), "nothing written outside"),
    "order": (fit_of(by_order), "an error for the unknown array w-unknown"),
}  # fmt: skip


@pytest.mark.parametrize("name", CORPUS)
def test_wrong_ones_are_told_what_is_wrong(tmp_path: Path, name: str) -> None:
    methods, complaint = CORPUS[name]
    folder = tmp_path / "clients" / "oak"
    client = type("Wrong", (Right,), methods)(folder)
    with pytest.raises(ContractError) as caught:
        check_client(client, TASKS, folder=folder)
    assert complaint in str(caught.value) and "likely cause: " in str(caught.value)


def test_memory_that_a_new_object_lacks(tmp_path: Path) -> None:
    class Remembering(Right):
        def fit(self, parameters, config):
            w = named_arrays(parameters, config)["w"]
            self.sum = w + (self.sum if config["round"] > 1 else 0)
            return self.reply(self.sum)

    check_client(Remembering(tmp_path), TASKS[:1])
    with pytest.raises(ContractError, match="no attribute 'sum'"):
        check_client(Remembering(tmp_path), TASKS, make=lambda: Remembering(tmp_path))
