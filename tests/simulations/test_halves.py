"""The server opens no data; a client opens its own and nothing of others.

Whole tiny runs in this process: what is opened while the client app answers is that client's, all else the server's.
Python reports every file that it opens; what safetensors reads (models and private states, no data) it does not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message

from fedsuite.roster.members import Member, Roster, write_roster
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import serve
from tests import cdl_runs, fedrl_runs
from tests.fedvln_runs import METHODS, chain_in
from tests.harness import prepared
from tests.watching import SERVER, Opened, forget, watch

LEFT_FOR_REPORTS = ("spoken_", "submission_")  # by houses, which live in the run folder here

# --- who opens what -------------------------------------------------------------------------------


def run_watched(config: dict[str, Any], roster: Roster) -> Opened:
    """A whole run, the server and every client with nothing in memory; what each of them opened."""
    known: set[str] = set()

    def answer(message: Message, context: Context) -> Message:
        name = roster.names[int(context.node_config["partition-id"])]
        if name not in known:  # all are asked who they are before anything else
            known.add(name)
            forget()
        with watch.acting(name):
            return client_app(message, context)

    grid = InProcessGrid(answer, len(roster), config)
    forget()
    with watch.on() as opened, server_identity():
        serve(grid, config)
    assert known == set(roster.names)
    return opened


# --- runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A run; `owners(file, member)`: whether the member owns this data file."""

    config: dict[str, Any]
    owns: Callable[[Path, Member], bool]

    @property
    def data(self) -> list[Path]:
        """Below these everything is data."""
        last = {key.partition(".")[2]: value for key, value in self.config.items()}
        folders = (last["data.cache-dir"], last["data.dir"])
        return [Path(folder) for folder in folders if folder]

    @property
    def run(self) -> Path:
        return Path(self.config["results-dir"]) / self.config["name"]


def of_its_houses(file: Path, member: Member) -> bool:
    """<scan>_connectivity.json, <scan>.npy, <scan>/episodes.json."""
    names = {file.stem, file.parent.name, file.name.removesuffix("_connectivity.json")}
    return bool(names & set(member.details["houses"]))


def of_its_silos(file: Path, member: Member) -> bool:
    """<silo>/*.npy; whoever holds all data also reads how many silos these are."""
    return member.name == "all-silos" or file.parent.name in member.details["names"]


def the_world(file: Path, member: Member) -> bool:
    """Parties share the maps, or the texts and their word vectors."""
    return file.suffix == ".npz"


VLN: dict[str, tuple[str, dict[str, Any]]] = {
    "train": ("train", {}),
    "train-centralised": ("train", {"method": "centralised"}),
    "speaker": ("speaker", {}),
    "augment": ("augment", {}),
    **{f"explore-{name}": ("pre-explore", changes) for name, changes in METHODS.items()},
}
CDL: dict[str, dict[str, Any]] = {
    "ring": {"cross_evaluation": True},
    "star": {"scenario": "star", "silos_per_client": 2, "data_weighted": True},
    "pooled": {"scenario": "cll"},
    "drives": {"num_silos": 0},
}
FEDRL: dict[str, dict[str, Any]] = {
    "three parties": {"parties": 3, "parallel_episodes": 8},
    "text": {"world": "text2action", "parallel_episodes": 8, "max_words": 20},
}
CASES = [*(f"fedvln {n}" for n in VLN), *(f"cdl {n}" for n in CDL), *(f"fedrl {n}" for n in FEDRL)]


def case_of(name: str, base: Path, cache: Path, folder: Path) -> Case:
    """The run that a test asks for; `base`: pytest's own folder, where FedVLN's first stages are."""
    system, _, variant = name.partition(" ")
    if system == "fedvln":
        stage, changes = VLN[variant]
        own = {"num_rounds": 2, "system": "fedvln", **changes}
        return Case(
            chain_in(base, __name__).config(f"halves-{variant}", stage, **own), of_its_houses
        )
    if system == "fedrl":
        config = fedrl_runs.config_of(cache, folder, "run", system="fedrl", **FEDRL[variant])
        return Case(config, the_world)
    changes = dict(CDL[variant])
    if variant == "drives":
        cdl_runs.write_drives(folder / "drives")
        changes["data_dir"] = str(folder / "drives")
    return Case(cdl_runs.config_of(cache, folder, "run", **changes), of_its_silos)


def below(files: set[Path], *folders: Path) -> set[Path]:
    return {file for file in files if any(file.is_relative_to(folder) for folder in folders)}


@pytest.fixture(params=CASES)
def halves(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    cache: Path,
    tmp_path: Path,
) -> tuple[Case, Roster, Opened]:
    """A run whose server was given a roster, and what was opened in it."""
    case = case_of(request.param, tmp_path_factory.getbasetemp(), cache, tmp_path)
    roster, file = prepared(case.config), tmp_path / "roster.json"
    write_roster(file, roster)
    return case, roster, run_watched({**case.config, "roster": str(file)}, roster)


def test_the_server_opens_no_data_and_every_client_its_own(
    halves: tuple[Case, Roster, Opened],
) -> None:
    case, roster, opened = halves
    assert (case.run / "model.safetensors").is_file()
    assert case.run / "history.jsonl" in opened[SERVER]  # it was watched
    assert not below(opened[SERVER], *case.data)
    private = below(opened[SERVER], case.run / "clients")
    assert not {file for file in private if not file.name.startswith(LEFT_FOR_REPORTS)}
    for member in roster.members:
        found = below(opened[member.name], *case.data)
        assert found, member.name
        strange = {file for file in found if not case.owns(file, member)}
        assert not strange, member.name
        private = below(opened[member.name], case.run)
        assert private == below(private, case.run / "clients" / member.name), member.name
    others = opened.keys() - {SERVER, *roster.names}
    assert not others


def test_without_a_roster_the_server_prepares_the_data_itself(tmp_path: Path) -> None:
    """Else the test above would not show that opening data is seen."""
    config = cdl_runs.config_of(tmp_path / "cache", tmp_path, "run", num_rounds=1)
    opened = run_watched(config, prepared(config))
    assert below(opened[SERVER], tmp_path / "cache")
