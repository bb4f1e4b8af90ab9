"""Who takes part in a run, and by which node each is reached."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedsuite.errors import RunFailed
from fedsuite.federation import ClientInfo, Scalar
from fedsuite.roster.software import differences


@dataclass(frozen=True)
class Members:
    """clients: by ascending partition; node_of: partition -> node id of this start.

    unmet: nobody has said who it is yet. The server knows them from a roster that it made itself, and simulated nodes play
    whichever member a message names; one that is asked for the first time says with its reply who it is. resume_round: the
    round that the run goes on from; machines: by name what each real node has told of its programs and its machine.
    """

    clients: tuple[ClientInfo, ...]
    node_of: Mapping[int, int]
    unmet: bool = False
    resume_round: int = 0
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def told(self) -> dict[str, str]:
        """What the event says that all are ready with: how real nodes differ, if they do."""
        line = differences(self.machines)
        return {"unlike": line} if line else {}


class Introductions:
    """What the first message to every member asks beside its task, where they are unmet."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self._met: set[int] = set()

    def asked(self, partition: int) -> dict[str, Scalar]:
        """To be added to a message's config: whom the node plays, and at first to say who it is."""
        if not self.members.unmet:
            return {}
        played: dict[str, Scalar] = {"as-partition": partition}
        if partition not in self._met:
            played["resume-round"] = self.members.resume_round
        return played

    def answered(self, partition: int, said: ClientInfo) -> None:
        """RunFailed where a client says other than the server knows of it."""
        known = self.members.clients[partition]
        if said != known:
            raise RunFailed(
                f"{known.name}: says that it is {_told(said)}, the server knows it as {_told(known)}; the data have changed "
                "since they were prepared, move the prepared folder away"
            )
        self._met.add(partition)

    def expects(self, partition: int) -> bool:
        """Whether the next reply of a member has to say who it is."""
        return self.members.unmet and partition not in self._met


def _told(client: ClientInfo) -> str:
    return f"{client.name} with {client.num_examples} examples, {dict(client.details)}"
