"""The party as a client: it lives where its last message was answered, or on disk, and says what is wrong in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.party import PartyClient, PartySite
from fedsuite.arrays import Arrays
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.open_world import open_world
from fedsuite.storage.progress import silent
from tests.fedrl_runs import ROLES, SYSTEM, Letter, config_of, recorded, settings_from

pytestmark = pytest.mark.slow

RUN: dict[str, Any] = {"parallel_episodes": 4, "num_rounds": 2, "round_length": 16, "step_limit": 4}


def site_of(config: dict[str, Any], folder: Path, party: int, resident: bool) -> PartySite:
    settings = settings_from(config)
    SYSTEM.prepare(settings, silent)
    role: Any = ROLES[party]
    world = open_world(settings)
    return PartySite(party, role, settings, world, folder / role, resident, "cpu")


def ask(site: PartySite, letter: Letter, **changes: Any) -> tuple[Arrays, dict[str, Any]]:
    config = {**letter.config, **changes, "array-names": "\n".join(letter.down)}
    arrays, _, metrics = PartyClient(site).fit(list(letter.down.values()), config)
    names = [name for name in metrics.pop("array-names").split("\n") if name]
    return dict(zip(names, arrays, strict=True)), metrics


def asserted(site: PartySite, letter: Letter) -> None:
    """The answer is the one that was recorded."""
    arrays, metrics = ask(site, letter)
    assert arrays.keys() == letter.up.keys()
    assert all(np.array_equal(arrays[k], letter.up[k]) for k in arrays), letter.phase
    assert {**metrics, "num-examples": 0} == {**letter.metrics, "num-examples": 0}


def to(party: int, letters: list[Letter]) -> list[Letter]:
    return [x for x in letters if x.partition == party and x.phase != "identity"]


@pytest.mark.parametrize("party", [0, 1])
def test_workers_that_take_turns_answer_like_one_party(tmp_path: Path, party: int) -> None:
    """Two processes share nothing but the folder; whoever is asked goes on where the other one stopped."""
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = to(party, recorded(config))
    workers = [site_of(config, tmp_path / "turns", party, False) for _ in range(2)]
    order = np.random.default_rng(0).integers(2, size=len(letters))
    assert 0 < order.sum() < len(order)
    for letter, worker in zip(letters, order, strict=True):
        asserted(workers[worker], letter)


def test_a_message_to_a_party_that_is_not_there_any_more_is_refused(tmp_path: Path) -> None:
    """A resident party keeps nothing on disk within a round, and never pretends to be where it is not."""
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = to(1, recorded(config))
    told = r"beta: message 1 of round 1 came, but the state before it is gone; resume the run"
    with pytest.raises(ValueError, match=told):
        ask(site_of(config, tmp_path / "new", 1, True), letters[1])
    site = site_of(config, tmp_path / "old", 1, True)
    ask(site, letters[0])
    ask(site, letters[1])
    with pytest.raises(ValueError, match=told):  # once more: it has been followed already
        ask(site, letters[1])


def _breaks(*_: Any) -> None:
    raise RuntimeError("broke")


def test_a_message_that_fails_leaves_no_half_changed_party(tmp_path: Path) -> None:
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = to(1, recorded(config))
    learn = next(i for i, x in enumerate(letters) if x.phase == "learn")
    for resident in (True, False):
        site = site_of(config, tmp_path / str(resident), 1, resident)
        for letter in letters[:learn]:
            ask(site, letter)
        with pytest.MonkeyPatch.context() as patched, pytest.raises(RuntimeError, match="broke"):
            patched.setattr(Party, "descend", _breaks)
            ask(site, letters[learn])
        if resident:
            with pytest.raises(ValueError, match="the state before it is gone"):
                ask(site, letters[learn])
        else:  # the state on disk is that before the message, so it can be answered after all
            asserted(site, letters[learn])


def test_versions_follow_the_checkpoints_and_a_new_run_forgets_them(tmp_path: Path) -> None:
    config = config_of(tmp_path, tmp_path, **{**RUN, "num_rounds": 5, "checkpoint_every": 2})
    recorded(config)
    folder = tmp_path / "run" / "clients" / "beta"

    def versions() -> list[str]:
        return sorted(p.name for p in folder.glob("round-*"))

    assert versions()[-1] == "round-000005.safetensors" and 1 < len(versions()) < 5
    site = site_of(config, tmp_path / "run" / "clients", 1, False)
    PartyClient(site).get_properties({"resume-round": 4})
    assert versions()[-1] == "round-000004.safetensors"
    PartyClient(site).get_properties({})
    assert versions()[-1] == "round-000004.safetensors"
    done = {"exchange": 4 * RUN["round_length"] // RUN["parallel_episodes"], "phase": "propose"}
    letter = Letter(1, "propose", {**done, "after-round": 4, "message": 0}, {}, {}, {}, ((), ()))
    ask(site, letter)
    assert site.party is not None and site.at == (4, 1)
    PartyClient(site).get_properties({"resume-round": 0})
    assert versions() == [] and site.party is None and site.at is None
    assert (folder / "aside-round-000004.safetensors").is_file()  # a server may be mistaken


@pytest.mark.parametrize("party", [0, 1])
def test_a_message_that_comes_again_is_answered_alike(tmp_path: Path, party: int) -> None:
    """Its first answer was lost, and with it the process: of a real node nothing is left but the folder."""
    config = config_of(tmp_path, tmp_path, **RUN)
    folder = tmp_path / "again"
    for letter in to(party, recorded(config)):
        for _ in range(2):
            asserted(site_of(config, folder, party, False), letter)
    assert site_of(config, folder, party, False).private.rounds() == [1, 2]


def test_no_working_state_is_left_at_the_end(tmp_path: Path) -> None:
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = to(1, recorded(config))
    site = site_of(config, tmp_path / "disk", 1, False)
    for letter in letters[:-1]:
        ask(site, letter)
        assert 1 <= len(site.working.rounds()) <= 2
    assert letters[-1].phase == "rest"
    ask(site, letters[-1])
    assert site.working.rounds() == [] and site.private.rounds() == [1, 2]
