"""The table of members and SuperNodes, and of the runs that go on."""

import io
from dataclasses import replace
from typing import Any

import pytest

from fedsuite.roster.members import Roster
from fedsuite.storage.escaping import PlainConsole
from simulations.deploy.check.registered import Registered
from simulations.deploy.check.status import going_on, lines_about, status_rows, status_table
from simulations.deploy.meter import Meter
from tests.deployment import small_roster

OAK = Registered(
    "oak", "SHA256:" + "o" * 43, 7, "online", "2026-01-02 03:04:05", "2026-01-02 03:05:00"
)
FIR = Registered("elm", "SHA256:" + "f" * 43, 8, "offline", "2026-01-02 03:04:06")
HERE = {"flwr": "1.41.0", "torch": "2.9.0"}
RUN = Meter("mine", "/runs/mine", "77", members=2, round=3, rounds=10, away=["elm"], lost_total=1,
            nodes={"oak": HERE, "elm": {**HERE, "torch": "2.8.0"}})  # fmt: skip


def bound() -> Roster:
    oak, elm, ash = small_roster().members
    keys = {"oak": OAK.key, "elm": "SHA256:" + "e" * 43}
    return Roster(tuple(replace(m, key=keys.get(m.name, "")) for m in (oak, elm, ash)))


def cells(rows: list[dict[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in keys) for row in rows]


def test_members_are_found_by_their_keys_not_their_names() -> None:
    """A node that calls itself elm is not elm."""
    rows = status_rows([FIR, OAK], bound())
    assert cells(rows, "member", "role", "status", "since (UTC)", "node id", "key") == [
        ("oak", "seen", "online", OAK.since, "7", OAK.key),
        ("elm", "seen", "not registered", "", "", "SHA256:" + "e" * 43),
        ("ash", "seen", "no key on the roster", "", "", ""),
        ("elm", "no member", "offline", FIR.since, "8", FIR.key),
    ]


def test_without_a_roster_all_nodes_are_listed() -> None:
    rows = status_rows([FIR, OAK], None)
    assert cells(rows, "member", "role", "status") == [
        ("elm", "", "offline"),
        ("oak", "", "online"),
    ]


def test_a_run_is_told_beside_who_is_in_it() -> None:
    rows = status_rows([FIR, OAK], None, [RUN])
    told = cells(rows, "run", "round", "last heartbeat (UTC)", "versions")
    assert told == [
        ("mine", "3/10, lost", "", {**HERE, "torch": "2.8.0"}),
        ("mine", "3/10", OAK.heartbeat, HERE),
    ]
    first, second = lines_about([RUN])
    assert first == (
        "run mine: round 3 of 10, 1 of 2 members online, lost 1 times, 0 replies not used; /runs/mine"
    )
    assert second == "run mine: nodes differ: torch 2.9.0 (oak), 2.8.0 (elm)"


@pytest.mark.parametrize(
    ("running", "ids", "shown"), [(1, {"77"}, True), (1, {"78"}, False), (0, {"77"}, False)]
)
def test_only_runs_that_flower_knows_to_go_on_are_told(
    running: int, ids: set[str], shown: bool
) -> None:
    """A server that was killed could not say so."""
    assert bool(going_on([replace(RUN, running=running)], ids)) is shown


def test_it_is_read_at_80_columns() -> None:
    out = io.StringIO()
    rows = status_rows([FIR, OAK], bound(), [RUN])
    PlainConsole(file=out, width=80).print(status_table(rows))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(rows) and all(len(line) <= 80 for line in lines)
    assert "01-02 03:04" in lines[1] and "03:05:00" in lines[1] and "3/10" in lines[1]
