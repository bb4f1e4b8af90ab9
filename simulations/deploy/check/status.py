"""The table of `fedsuite deploy status`: members of a roster beside the SuperNodes that a SuperLink knows, by their keys."""

from collections.abc import Sequence

from rich.table import Table

from fedsuite.roster.members import Roster
from simulations.deploy.check.registered import Registered

TITLES = ("member", "role", "status", "since (UTC)", "node id", "key")
UNKNOWN = "not registered"
UNBOUND = "no key on the roster"


def status_rows(nodes: Sequence[Registered], roster: Roster | None) -> list[tuple[str, ...]]:
    """Member, role, status, since, node id, key: members in their order, then nodes that are no member's."""
    by_key = {node.key: node for node in nodes}
    rows: list[tuple[str, ...]] = []
    found = set()
    for member in roster.members if roster else ():
        node = by_key.get(member.key) if member.key else None
        if node is None:
            rows.append(
                (member.name, member.role, UNKNOWN if member.key else UNBOUND, "", "", member.key)
            )
            continue
        found.add(node.key)
        rows.append((member.name, member.role, *_of(node)))
    other = "no member" if roster else ""
    rows += [(node.name, other, *_of(node)) for node in nodes if node.key not in found]
    return rows


def status_table(rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table()
    for title in TITLES:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _of(node: Registered) -> tuple[str, ...]:
    return node.status, node.since, str(node.node_id), node.key
