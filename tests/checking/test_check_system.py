"""check_system accepts the three systems and the toy, all their clients included, and names what is wrong with others."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedsuite.checking import ContractError
from fedsuite.roster.members import Member, Roster
from fedsuite.settings.config import setting
from simulations.check_system import check_system
from simulations.systems import load_system
from tests import toy
from tests.golden.runs import RUNS
from tests.harness import full_keys

Checked = Callable[[str], Path]
SMALLER: dict[str, dict[str, Any]] = {
    "vln": {"generated-seen-houses": 2, "generated-unseen-houses": 1},
    "cdl": {"num-silos": 2, "train-frames": 8},
    "rl": {"maps": 100, "round-length": 16},
}


def run_of(name: str, **changes: Any) -> dict[str, Any]:
    """Settings of a run, smaller still."""
    return {**RUNS[name], **SMALLER[name.split("-", maxsplit=1)[0]], **changes}


def full(values: dict[str, Any]) -> dict[str, Any]:
    return full_keys(load_system(str(values["system"])).config_class, values)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of this file alone: the checks move the folder away and back."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Checked:
    """`checked(name)`: the system of a tiny run, held to its contract once; the folder of the run."""
    root, known = tmp_path_factory.mktemp("checked"), set()

    def checked(name: str) -> Path:
        if name not in known:
            values = run_of(name, **{"num-rounds": 2, "cache-dir": str(data)})
            check_system(full(values), root / name, data=data)
            known.add(name)
        return root / name / "runs" / "first"

    return checked


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["vln-train-parallel", "vln-speaker", "cdl-ring", "rl-alternating"]
)
def test_systems_of_ours(checked: Checked, name: str) -> None:
    checked(name)


HALVES = (
    "vln-train-shared",
    "vln-explore-fed-lan-seen",
    "cdl-ring-cross",
    "rl-three-parties",
    "rl-dqn-alpha",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", HALVES)
def test_both_halves_of_other_methods(
    checked: Checked, data: Path, tmp_path: Path, name: str
) -> None:
    keys = [key for key in ("start-from", "speaker-from") if key in RUNS[name]]
    changes = {key: str(checked(str(RUNS[name][key]))) for key in keys}
    values = run_of(name, **changes, **{"num-rounds": 1, "cache-dir": str(data)})
    check_system(full(values), tmp_path / "checked", data=data, runs=False)


@pytest.mark.slow
def test_a_ledger_counts_what_is_done_again(data: Path, tmp_path: Path) -> None:
    private = {"privacy.unit": "client", "privacy.noise": "seeded", "num-rounds": 1}
    values = run_of("vln-train-parallel", **private, **{"cache-dir": str(data)})
    check_system(full(values), tmp_path / "checked", data=data, runs=False)


# --- wrong ones: the toy with one fault ---------------------------------------------------------


def clients(count: int = 3, name: str = "site-{}", **changes: Any) -> Callable[..., Roster]:
    def prepare(settings: Any, progress: Any) -> Roster:
        return Roster(tuple(Member(name.format(i), "site", 20, **changes) for i in range(count)))

    return prepare


numbers = iter(range(1000))


def growing(settings: Any, progress: Any) -> Roster:
    return Roster((Member("site-0", "site", next(numbers)),))


class Undecorated(toy.ToySettings):
    """Its key would never be read."""

    depth: int = setting(3, "layers", ge=1)


@dataclass(frozen=True)
class Bare(toy.ToySettings):
    list_of_things: str = "made without setting"


@dataclass(frozen=True)
class Limited(toy.ToySettings):
    share: float = setting(2.0, "a default outside of its limits", le=1)


def complaining(settings: Any) -> None:
    if settings.width == 1:
        raise KeyError("width")


class Forgetful(toy.ToyClient):
    """Its momentum lives in the process."""

    momentum: dict[int, float] = {}  # noqa: RUF012

    def fit(self, parameters, config):
        self.momentum[self.partition] = self.momentum.get(self.partition, 0.0) + 1.0
        arrays, count, metrics = super().fit(parameters, config)
        return arrays, count, {**metrics, "momentum": self.momentum[self.partition]}


class Drawing(toy.ToyStrategy):
    """Draws anew in every object."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.draw = next(numbers)

    def train(self, number, state, clients):
        result = yield from super().train(number, state, clients)
        return dataclasses.replace(result, metrics={**result.metrics, "draw": float(self.draw)})


def opening(settings: Any, roster: Any) -> Any:
    (Path(settings.data_file) / "frames").read_bytes()
    return toy.ToyStrategy(settings)


CORPUS: dict[str, tuple[dict[str, Any], str]] = {
    "field": ({"report": None}, "report: expected a function, got None"),
    "undecorated": ({"config_class": Undecorated}, "likely cause: @dataclass(frozen=True)"),
    "settings": ({"config_class": dict}, "a frozen dataclass of RunSettings, got <class 'dict'>"),
    "no setting": ({"config_class": Bare}, "declare the field with setting(...)"),
    "default": ({"config_class": Limited}, "expected valid defaults"),
    "validate": ({"validate": complaining}, "validate, width = 1: expected no exception, got KeyError"),
    "no roster": ({"prepare": lambda s, p: ["site-0"]}, "prepare: expected a Roster, got list"),
    "names": ({"prepare": clients(name="site")}, "stands in it twice"),
    "details": ({"prepare": clients(details={"silos": (1, 2)})}, "prepare: expected JSON values alone"),
    "twice": ({"prepare": growing}, "prepare: expected the same roster twice"),
    "opens data": ({"make_strategy": opening}, "make_strategy: expected no need of data, got FileNotFoundError"),
    "partition": ({"make_client": lambda s, n: toy.ToyClient(s, 0)}, "partition and name (1, 'site-1')"),
    "client": ({"make_client": lambda s, n: Forgetful(s, n.partition)}, "the same tasks again"),
    "strategy": ({"make_strategy": lambda s, r: Drawing(s)}, "train(1): expected the same result"),
}  # fmt: skip


def check(monkeypatch: pytest.MonkeyPatch, folder: Path, runs: bool, **changes: Any) -> None:
    monkeypatch.setattr(toy, "WRONG", dataclasses.replace(toy.SYSTEM, **changes), raising=False)
    data = folder / "data"
    data.mkdir()
    (data / "frames").touch()
    values = {"system": "tests.toy:WRONG", "num-rounds": 2, "data-file": str(data)}
    check_system(values, folder, data, runs)


@pytest.mark.parametrize("name", CORPUS)
def test_wrong_ones_are_told_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    changes, complaint = CORPUS[name]
    with pytest.raises(ContractError) as caught:
        check(monkeypatch, tmp_path, runs=False, **changes)
    assert complaint in str(caught.value) and "likely cause: " in str(caught.value)


def test_the_toy_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(monkeypatch, tmp_path, runs=True)


def test_runs_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that goes on from run to run, in a place that the parts' check does not come to."""

    class Late(toy.ToyStrategy):
        def finish(self, number, state, clients):
            result = yield from super().finish(number, state, clients)
            draws = 0.0 if self.c.name.startswith("parts") else float(next(numbers))
            return dataclasses.replace(result, metrics={**result.metrics, "draws": draws})

    with pytest.raises(ContractError, match="the same run twice: expected the same history"):
        check(monkeypatch, tmp_path, runs=True, make_strategy=lambda s, r: Late(s))


def test_a_resumed_run_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Resumed(toy.ToyStrategy):
        def finish(self, number, state, clients):
            result = yield from super().finish(number, state, clients)
            resumed = float(bool(self.c.resume))
            return dataclasses.replace(result, metrics={**result.metrics, "resumed": resumed})

    with pytest.raises(
        ContractError, match="a resumed run: expected the bytes of an uninterrupted"
    ):
        check(monkeypatch, tmp_path, runs=True, make_strategy=lambda s, r: Resumed(s))
