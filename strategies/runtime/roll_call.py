"""Which node is which member of the roster, by what each says of itself and by the key that Flower has seen of it.

A node may be of another run: several share a SuperLink. Such a node is left to it. One that is of this run, but cannot
take part as it is, has failed; one whose key is not what the roster has for the name that it says is not believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fedsuite.errors import RunFailed, one_line
from fedsuite.federation import ClientInfo
from fedsuite.roster.members import Roster
from fedsuite.roster.software import facts, keeping_out, minor_of, told_by
from strategies.runtime.identity import read_identity
from strategies.runtime.members import Members
from strategies.runtime.messages import RawReply

_SHOWN = 4  # nodes that a failure names


@dataclass
class RollCall:
    """keys: by node id the fingerprint of its public key, "" where Flower knows none; found: by partition who it is, and
    its node; machines: by name what each runs on (software.py). Why others do not take part: failed, nodes of this run;
    strange, nodes that need not be of this run.

    strict: all nodes must be of this run, and nothing is compared but names, as in a simulation.
    """

    roster: Roster
    strict: bool
    keys: dict[int, str] = field(default_factory=dict)
    found: dict[int, tuple[ClientInfo, int]] = field(default_factory=dict)
    machines: dict[str, dict[str, str]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    strange: dict[int, str] = field(default_factory=dict)

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(enumerate(self.roster.names))

    @cached_property
    def _claims(self) -> dict[str, str]:
        return {member.name: member.key for member in self.roster.members}

    @property
    def complete(self) -> bool:
        return len(self.found) == len(self.roster)

    @property
    def decided(self) -> bool:
        """Whether all members are there, or a node of this run cannot take part."""
        return self.complete or bool(self.failed)

    @property
    def facts(self) -> Mapping[str, str]:
        """What every node must have in common with the server."""
        return facts(self.roster.digest)

    def learn(self, node: int, raw: RawReply) -> None:
        """What a node answered; RunFailed for what no node of any run may answer."""
        if raw.error and self.strict:
            raise RunFailed(f"node {node} could not say who it is: {raw.error}")
        if raw.unreachable:  # once it is connected again, it is asked again
            self.keys.pop(node, None)
            return
        if raw.error:
            self._note_error(node, raw.error)
            return
        if not self.strict and not self._is_ours(node, raw.properties):
            return
        info = read_identity(raw.properties, f"node {node}")
        name = self._names.get(info.partition)
        if name != info.name:
            raise RunFailed(
                f"node {node} as partition {info.partition} calls itself {info.name!r}, the roster has "
                f"{(name or 'nobody')!r}; give the node the roster of this run"
            )
        if info.partition in self.found:
            raise RunFailed(
                f"nodes {self.found[info.partition][1]} and {node} both call themselves {name}, partition "
                f"{info.partition}; give each its own name, and bind names to keys (key in the roster)"
            )
        self.found[info.partition] = (info, node)
        if not self.strict:
            self.machines[info.name] = told_by(raw.properties)

    def _note_error(self, node: int, error: str) -> None:
        """Only its key tells whether it is this run's matter."""
        own, names = self.keys.get(node, ""), {m.key: m.name for m in self.roster.members if m.key}
        whose = f" ({names[own]}'s by its key)" if own in names else ""
        noted = self.failed if whose else self.strange
        noted[node] = f"node {node}{whose} could not say who it is: {error}"

    def _is_ours(self, node: int, said: Mapping[str, object]) -> bool:
        """Whether a node is who it says, of this run, and fit for it; if not, why is noted."""
        name = one_line(str(said.get("name")), 200)
        here, claims = f"node {node} calls itself {name!r}", self._claims
        own = self.keys.get(node, "")
        if name not in claims:
            self.strange[node] = f"{here}, which is not on the roster; it is left to other runs"
        elif (bound := claims[name]) and own != bound:
            shown = (
                own
                or "one that Flower does not tell (start the SuperLink with --enable-supernode-auth)"
            )
            noted = self.failed if own in claims.values() or not own else self.strange
            noted[node] = (
                f"{here}, but the roster binds that name to key {bound}, and the node's is {shown}"
            )
        elif own and own in claims.values() and not bound:
            other = next(n for n, key in claims.items() if key == own)
            self.failed[node] = f"{here}, but the roster binds its key {own} to {other}"
        elif unlike := keeping_out(self.facts, said):
            self.failed[node] = f"{here}, {self._difference(unlike, said)}"
        else:
            return True
        return False

    def _difference(self, fact: str, said: Mapping[str, object]) -> str:
        its = one_line(str(said.get(fact, "none")), 40)
        if fact == "version":
            return f"and has fedsuite {its}, the server {self.facts[fact]}; give both the same"
        if fact == "flwr":
            wanted = minor_of(self.facts[fact])
            return f"and has Flower {its}, expected {wanted}, which the server has; install flwr {wanted} there"
        return (
            f"but its roster is not the server's (digest {its[:12]}, here {self.facts[fact][:12]}): members, facts or words "
            "differ; give it this run's roster.json"
        )

    def notes(self) -> dict[int, str]:
        """By node, why it does not take part."""
        return {**self.failed, **self.strange}

    def members(self, silent: Mapping[int, float], deadline_s: float) -> Members:
        """All members; RunFailed, with what is known of the nodes that could be the missing ones.

        silent: nodes that were asked and did not answer, with the seconds that they had.
        """
        if self.complete:
            clients, nodes = zip(*(self.found[p] for p in sorted(self.found)), strict=True)
            return Members(clients, dict(enumerate(nodes)), machines=self.machines)
        if silent and self.strict:
            raise RunFailed(
                f"{len(silent)} of {len(self.roster)} clients did not say who they are within "
                f"{min(silent.values()):g} s (reply-deadline-s)"
            )
        missing = [n for p, n in enumerate(self.roster.names) if p not in self.found]
        told = [*self.failed.values(), *self.strange.values()]
        told += [
            f"node {n} did not answer within {s:g} s (reply-deadline-s)" for n, s in silent.items()
        ]
        if len(told) > _SHOWN:
            told[_SHOWN:] = [f"and {len(told) - _SHOWN} more in errors.log"]
        raise RunFailed(
            f"no node for {', '.join(missing[:_SHOWN])}{' ...' if len(missing) > _SHOWN else ''} ({len(missing)} of "
            f"{len(self.roster)} members): {'; '.join(told) or 'none has connected'}; connect a SuperNode for each "
            f"within node-deadline-s = {deadline_s:g}"
        )
