"""What every protocol between a rewarded party and its partners is made of: numbered messages, counts, greedy tests.

Scalars of the server's state: exchange (done so far), and released.<party>: Q-vectors that have left each party, on which
the privacy statement is built.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedsuite.arrays import Arrays, with_prefix
from fedsuite.errors import InputError
from fedsuite.federation import Asking, ClientInfo, Clients, Reply, RoundStrategy, Scalar, Task

ALPHA = 0
MLP = "mlp."
Shapes = Mapping[str, tuple[int, ...]]
Scalars = Mapping[str, Scalar]
Ranges = Mapping[str, tuple[float, float]]
# Metrics that the protocol goes by.
_NEEDS = {"act": ("ended",), "choose": ("active",), "train-alone": ("exchanges",)}
_WHOLE = ("actions", "episodes", "ids")


class PartyRelay(RoundStrategy):
    """Speaks to parties 0 .. P-1, of which 0 has the rewards; messages are numbered from 0 within a round."""

    def __init__(self, num_parties: int) -> None:
        self.num_parties = num_parties
        self.partners = range(1, num_parties)
        self._messages = [0] * num_parties
        self._after_round = 0

    def _ask(
        self,
        arrays: Mapping[int, Arrays],
        phase: str,
        returns: Shapes,
        config: Scalars,
        ranges: Ranges | None = None,
    ) -> Asking[dict[int, Reply]]:
        """One batch of messages, one per party named in `arrays`; replies by party."""
        tasks = []
        for p, own in arrays.items():
            place = {"after-round": self._after_round, "message": self._messages[p]}
            asked = {"phase": phase, **place, **config}
            types = {k: "int64" if k in _WHOLE else "float32" for k in returns}
            needs = _NEEDS.get(phase, ())
            task = Task(p, "train", own, asked, returns, summed=True, types=types, needs=needs)
            tasks.append(replace(task, ranges=ranges or {}))
            self._messages[p] += 1
        replies = yield tasks
        return {reply.partition: reply for reply in replies}

    def _begin_round(self, after: int) -> None:
        """Messages are numbered from 0 within a round, so that a party knows whether it has missed one."""
        self._after_round, self._messages = after, [0] * self.num_parties

    def _test(
        self, plan: Scalars, mlp: Arrays, scalars: dict[str, Scalar], clients: Clients
    ) -> Asking[dict[str, float]]:
        """Greedy episodes, all side by side; alpha's scores. plan: split, noisy, best weights, number of the draw."""
        alpha, split = clients[ALPHA], plan["split"]
        envs, num_actions = alpha.count(f"envs.{split}"), alpha.count("actions")
        actions: Arrays = {}
        looking = going_on = (
            envs  # partners' episodes in this tick's look, and alpha's after its choice
        )
        if self.partners:
            for tick in range(alpha.count("longest")):
                here = {"tick": tick, **plan}
                sent = {p: actions for p in self.partners}
                looked = yield from self._ask(sent, "look", {"q": (envs, num_actions)}, here)
                q = {f"q.{p}": looked[p].arrays["q"] for p in self.partners}
                sent = {ALPHA: q | with_prefix(mlp, MLP)}
                may_be = {"actions": (-1, num_actions - 1), "active": (0, envs)}
                chosen = yield from self._ask(sent, "choose", {"actions": (envs,)}, here, may_be)
                add_released(self.partners, looking, scalars)
                actions = dict(chosen[ALPHA].arrays)
                # A partner learns from the next actions only that an env's episode is over.
                looking, going_on = going_on, int(chosen[ALPHA].metrics["active"])
                if not going_on:
                    break
        scored = yield from self._ask({ALPHA: {}}, "scores", {}, plan)
        return dict(scored[ALPHA].metrics)


def first_counts(num_parties: int) -> dict[str, Scalar]:
    return {"exchange": 0, **{f"released.{p}": 0 for p in range(num_parties)}}


def add_released(parties: Iterable[int], count: int, counts: dict[str, Scalar]) -> None:
    """`count` more Q-vectors have left each of these parties."""
    for p in parties:
        counts[f"released.{p}"] = int(counts[f"released.{p}"]) + count


def check_agreement(clients: Sequence[ClientInfo]) -> None:
    """InputError unless all parties' worlds have the same facts."""
    alpha = clients[ALPHA]
    for client in clients[1:]:
        for key, value in alpha.details.items():
            found = client.details.get(key)
            if found != value:
                raise InputError(
                    f"party {client.name}: {key} is {found}, party {alpha.name} has {value}; give all parties "
                    "the same data and settings"
                )
