"""The table of members and SuperNodes."""

from dataclasses import replace

from fedsuite.roster.members import Roster
from simulations.deploy.check.registered import Registered
from simulations.deploy.check.status import status_rows
from tests.deployment import small_roster

OAK = Registered("oak", "SHA256:" + "o" * 43, 7, "online", "2026-01-02 03:04:05")
FIR = Registered("elm", "SHA256:" + "f" * 43, 8, "offline", "2026-01-02 03:04:06")


def bound() -> Roster:
    oak, elm, ash = small_roster().members
    keys = {"oak": OAK.key, "elm": "SHA256:" + "e" * 43}
    return Roster(tuple(replace(m, key=keys.get(m.name, "")) for m in (oak, elm, ash)))


def test_members_are_found_by_their_keys_not_their_names() -> None:
    """A node that calls itself elm is not elm."""
    assert status_rows([FIR, OAK], bound()) == [
        ("oak", "seen", "online", OAK.since, "7", OAK.key),
        ("elm", "seen", "not registered", "", "", "SHA256:" + "e" * 43),
        ("ash", "seen", "no key on the roster", "", "", ""),
        ("elm", "no member", "offline", FIR.since, "8", FIR.key),
    ]


def test_without_a_roster_all_nodes_are_listed() -> None:
    assert [row[:3] for row in status_rows([FIR, OAK], None)] == [
        ("elm", "", "offline"),
        ("oak", "", "online"),
    ]
