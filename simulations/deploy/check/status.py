"""`fedsuite deploy status`: members of a roster beside the SuperNodes that a SuperLink knows, by key, and the runs there."""

from collections.abc import Collection, Sequence
from typing import Any

from rich.table import Table

from fedsuite.roster.members import Roster
from fedsuite.roster.software import differences
from simulations.deploy.check.registered import Registered
from simulations.deploy.meter import Meter

UNKNOWN = "not registered"
UNBOUND = "no key on the roster"
SHOWN = {
    "member": "member",
    "role": "role",
    "status": "status",
    "since (UTC)": "since (UTC)",
    "heard": "last heartbeat (UTC)",
    "run": "run",
    "round": "round",
}
Row = dict[str, Any]


def status_rows(
    nodes: Sequence[Registered], roster: Roster | None, runs: Sequence[Meter] = ()
) -> list[Row]:
    """Members in their order, then nodes that are no member's.

    runs: those that go on, as their servers tell; a member's run, round and versions are those of a run that it is in.
    """
    by_key = {node.key: node for node in nodes}
    rows: list[Row] = []
    found = set()
    for member in roster.members if roster else ():
        node = by_key.get(member.key) if member.key else None
        status = UNKNOWN if member.key else UNBOUND
        if node is not None:
            found.add(node.key)
        rows.append(_row(member.name, member.role, node, status, member.key, runs))
    other = "no member" if roster else ""
    rows += [_row(n.name, other, n, "", n.key, runs) for n in nodes if n.key not in found]
    return rows


def _row(
    name: str, role: str, node: Registered | None, status: str, key: str, runs: Sequence[Meter]
) -> Row:
    mine = next((run for run in runs if name in run.nodes), None) if node else None
    away = mine is not None and name in mine.away
    return {
        "member": name,
        "role": role,
        "status": node.status if node else status,
        "since (UTC)": node.since if node else "",
        "last heartbeat (UTC)": node.heartbeat if node else "",
        "node id": str(node.node_id) if node else "",
        "key": key,
        "run": mine.run if mine else "",
        "round": f"{mine.round}/{mine.rounds}{', lost' * away}" if mine else "",
        "versions": dict(mine.nodes[name]) if mine else {},
    }


def status_table(rows: Sequence[Row]) -> Table:
    """What fits into 80 columns: days and years of times are left out, node ids and keys are in --json."""
    table = Table(box=None, pad_edge=False)
    for title in SHOWN:
        table.add_column(title, overflow="fold")
    for row in rows:
        cells = {title: str(row[key]) for title, key in SHOWN.items()}
        cells["since (UTC)"] = cells["since (UTC)"][5:16]
        cells["heard"] = cells["heard"][11:19]
        table.add_row(*cells.values())
    return table


def lines_about(runs: Sequence[Meter]) -> list[str]:
    """Of every run that goes on: how it stands, and how its nodes differ."""
    lines = []
    for run in runs:
        lines.append(
            f"run {run.run}: round {run.round} of {run.rounds}, {run.members_online} of {run.members} members online, lost "
            f"{run.lost_total} times, {run.rejected_total} replies not used; {run.folder}"
        )
        if unlike := differences(run.nodes):
            lines.append(f"run {run.run}: nodes differ: {unlike}")
    return lines


def going_on(seen: Sequence[Meter], running: Collection[str]) -> list[Meter]:
    """Of what servers have left, the runs that Flower says to be running (by its ids)."""
    return [meter for meter in seen if meter.running and meter.flower_run in running]
