"""A party answers the messages of its run and no others: every field of every message is lied in once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.party import PartyClient, PartySite
from fedsuite.arrays import Arrays
from fedsuite.errors import InputError
from fedsuite.fedrl.open_world import open_world
from fedsuite.fedrl.protocol import phases_of
from fedsuite.storage.progress import silent
from tests.fedrl_runs import ROLES, SYSTEM, Letter, config_of, recorded, settings_from

pytestmark = pytest.mark.slow
RUN: dict[str, Any] = {"parallel_episodes": 4, "num_rounds": 2, "round_length": 16, "step_limit": 4}
ONE_PARTY = ("dqn-alpha", "dqn-beta", "dqn-full", "fcn-alpha", "fcn-full", "random", "oracle")
LIES: tuple[Any, ...] = (
    -1,
    0,
    1,
    2,
    3,
    17,
    10**18,
    True,
    False,
    1.5,
    float("nan"),
    "",
    "propose",
    "look",
    "test",
)


def site_of(config: dict[str, Any], folder: Path, party: int) -> PartySite:
    settings = settings_from(config)
    SYSTEM.prepare(settings, silent)
    role: Any = ROLES[party]
    return PartySite(party, role, settings, open_world(settings), folder / role, False, "cpu")


def answered(site: PartySite, config: dict[str, Any], arrays: Arrays) -> Arrays:
    """As clients/numpy_client_app.py hands a message on."""
    client = PartyClient(site)
    client.instruction("train", config).check(config, "train message")
    found, _, metrics = client.fit(
        list(arrays.values()), {**config, "array-names": "\n".join(arrays)}
    )
    return dict(zip(filter(None, metrics["array-names"].split("\n")), found, strict=True))


def lies_of(letter: Letter) -> Iterator[tuple[str, dict[str, Any], Arrays]]:
    """The letter with one thing changed: each field to each lie, each field gone, one more; each array likewise."""
    for name, true in letter.config.items():
        yield f"no {name}", {k: v for k, v in letter.config.items() if k != name}, letter.down
        for lie in LIES:
            # Asked for again where the last answer was lost; the end is answered however often it comes.
            again = name == "message" and (lie == true - 1 or letter.phase == "rest")
            if not again and (type(lie) is not type(true) or lie != true):
                yield f"{name} = {lie!r}", {**letter.config, name: lie}, letter.down
    yield "noise-sigma = 0", {**letter.config, "noise-sigma": 0.0}, letter.down
    for name, array in letter.down.items():
        yield f"no {name}", letter.config, {k: v for k, v in letter.down.items() if k != name}
        wrong = {
            "type": array.astype("float64"),
            "shape": array[..., None],
            "twice": np.stack([array, array]),
        }
        if array.dtype.kind == "f" and array.size:
            wrong["nan"] = np.full_like(array, np.nan)
        for kind, other in wrong.items():
            yield f"{kind} of {name}", letter.config, {**letter.down, name: other}
    yield "one array more", letter.config, {**letter.down, "more": np.zeros(1)}


REFUSED = r"the server's message has|the state before it is gone"
# What may differ and stay a message of this run, and tells nothing: nobody goes back to these rounds.
HARMLESS = {"checkpoint-rounds", "best"}


@pytest.mark.parametrize("party", [0, 1])
def test_a_server_that_lies_in_any_field_gets_nothing(tmp_path: Path, party: int) -> None:
    """At every phase's first message, all others having been honest; the party then goes on as if nobody had lied."""
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = [x for x in recorded(config) if x.partition == party and x.phase != "identity"]
    site, seen, refused = site_of(config, tmp_path / "lied", party), set(), 0
    for letter in letters:
        key = (
            letter.phase,
            letter.config.get("split"),
            bool(letter.config.get("tick")),
            bool(len(letter.down.get("ids", ()))),
        )
        for name, lie, arrays in lies_of(letter) if key not in seen else ():
            if name.split(" ")[0] in HARMLESS:
                continue
            with pytest.raises(ValueError, match=REFUSED):
                answered(site, lie, arrays)
                pytest.fail(f"{letter.phase}: {name} was answered")
            refused += 1
        seen.add(key)
        up = answered(site, letter.config, letter.down)
        assert all(np.array_equal(up[k], letter.up[k]) for k in letter.up), letter.phase
    assert {k[0] for k in seen} == set(phases_of(settings_from(config), party)) and refused > 500


def test_the_same_noise_never_goes_on_two_things(tmp_path: Path) -> None:
    """Gradient steps on other records than were answered; an exchange twice; one that is not its turn."""
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = [x for x in recorded(config) if x.partition == 1 and x.phase != "identity"]
    learn = next(i for i, x in enumerate(letters) if x.phase == "learn")
    site = site_of(config, tmp_path / "again", 1)
    for letter in letters[:learn]:
        answered(site, letter.config, letter.down)
    asked, next_place = letters[learn], {"message": letters[learn].config["message"]}
    others = {**asked.down, "ids": asked.down["ids"][:, ::-1].copy()}
    assert not np.array_equal(others["ids"], asked.down["ids"])
    with pytest.raises(InputError, match="those that were answered in this exchange"):
        answered(site, asked.config, others)
    answer = letters[learn - 1]
    for exchange in (answer.config["exchange"], answer.config["exchange"] + 1):
        with pytest.raises(InputError, match=r"exchange|gradient steps"):
            answered(site, {**answer.config, **next_place, "exchange": exchange}, answer.down)
    answered(site, asked.config, asked.down)
    with pytest.raises(InputError, match="those that were answered"):
        again = {**asked.config, "message": asked.config["message"] + 1}
        answered(site, again, asked.down)


@pytest.mark.parametrize("method", ONE_PARTY)
def test_a_party_on_its_own_sends_no_q_values(tmp_path: Path, method: str) -> None:
    settings = settings_from(config_of(tmp_path, tmp_path, method=method))
    phases = phases_of(settings, 0)
    assert not {"propose", "act", "answer", "learn", "learn-first", "look", "choose"} & set(phases)


def test_a_round_begins_where_the_last_one_closed(tmp_path: Path) -> None:
    """A server cannot have an earlier round played again without saying that it resumes."""
    config = config_of(tmp_path, tmp_path, **RUN)
    letters = [x for x in recorded(config) if x.partition == 1 and x.phase != "identity"]
    site = site_of(config, tmp_path / "back", 1)
    closed = next(i for i, x in enumerate(letters) if x.phase == "close")
    for letter in letters[: closed + 1]:
        answered(site, letter.config, letter.down)
    with pytest.raises(
        InputError, match="after-round = 0, expected 1, the last round that was closed"
    ):
        answered(site, letters[0].config, letters[0].down)
    answered(site, letters[closed + 1].config, letters[closed + 1].down)
