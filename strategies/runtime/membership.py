"""Who takes part: ask every node once who it is, and from then on speak of partitions.

Node ids are drawn anew at every start and say nothing about data; partitions 0..N-1 and names are the clients' own and stay
the same, so that sampling, history and private state do not depend on how a run was started.

A server that made the roster itself (a simulation) waits for exactly as many nodes as it has members. One that was given a
roster asks every node that connects, until all members have answered; nodes of other runs are left to these.
"""

import time
from functools import partial

from flwr.serverapp import Grid

from fedsuite.errors import RunFailed
from fedsuite.federation import Clients
from fedsuite.privacy.identity import fingerprint
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import RunSettings
from strategies.runtime.members import Members
from strategies.runtime.messages import identity_message, read_reply
from strategies.runtime.post import Post
from strategies.runtime.roll_call import RollCall

# For answers of nodes that may be of other runs, and busy with these, when all that this run needs is known.
PATIENCE_S = 20.0


def gather(
    grid: Grid,
    roster: Roster,
    resume_round: int,
    settings: RunSettings,
    folder: RunFolder,
    known: Clients | None = None,
) -> Members:
    """Learn which node is which member of the roster; RunFailed if that does not work out.

    Nodes that do not take part although the run goes on are noted in errors.log, what real nodes run on in run.json.
    known: what the roster says of the clients of a simulation, if nobody is to be asked before it has something to do.
    """
    deadline_s, strict = settings.reply_deadline_s, not settings.roster
    if known is not None:
        some = wait_for_nodes(grid, len(roster), settings.node_deadline_s, least=1)
        played = {c.partition: some[c.partition % len(some)] for c in known}
        return Members(tuple(known), played, unmet=True, resume_round=resume_round)
    roll = RollCall(roster, strict)
    facts = {} if strict else {**roll.facts, "run-key": folder.run_key()}
    ask = partial(identity_message, resume_round=resume_round, ttl_s=2 * deadline_s, facts=facts)
    nodes = wait_for_nodes(grid, len(roster), settings.node_deadline_s) if strict else []
    post = Post(grid, folder)
    while True:
        for node, key in [(n, "") for n in nodes] if strict else _connected(grid):
            if node not in roll.keys:
                roll.keys[node] = key
                post.send(node, ask(node))
        came = post.collect(lambda node, reply, _: roll.learn(node, read_reply(reply)))
        if roll.decided and not post.is_waiting(min(deadline_s, PATIENCE_S)):
            break
        over = strict or post.elapsed() >= settings.node_deadline_s
        if over and not post.is_waiting(deadline_s):
            break
        if not came:
            post.pause()
    for node, note in roll.notes().items():
        folder.log_error(f"node {node}", note)
    members = roll.members({n: deadline_s for n in post.unanswered}, settings.node_deadline_s)
    if members.machines:
        folder.note(nodes=members.machines)
    return members


def _connected(grid: Grid) -> list[tuple[int, str]]:
    """Nodes that are connected now, with the fingerprints of their keys."""
    return sorted((info.node_id, fingerprint(info.public_key)) for info in grid.get_nodes())


def wait_for_nodes(grid: Grid, expected: int, deadline_s: float, least: int = 0) -> list[int]:
    """Ids of exactly `expected` connected nodes, or of `least` to `expected`."""
    give_up = time.monotonic() + deadline_s
    while True:
        nodes = sorted(grid.get_node_ids())
        if (least or expected) <= len(nodes) <= expected:
            return nodes
        if len(nodes) > expected or time.monotonic() >= give_up:
            raise RunFailed(
                f"{len(nodes)} nodes are connected, the configuration needs {expected}; simulate with "
                f"--federation-config num-supernodes={expected}, or connect {expected} SuperNodes "
                f"within node-deadline-s = {deadline_s:g}"
            )
        time.sleep(0.02)
