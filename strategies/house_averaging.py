"""Federated averaging over houses: Algorithm 1 of FedVLN (Zhou & Wang 2022), of an agent or of a speaker.

A round is that of strategies/averaging.py, with ceil(tau n_k / B) optimizer steps of a house. Houses that own validation
instructions score the result. Centralised training is the same with everybody taking part, everybody being a single client
that holds all houses.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedsuite.arrays import Arrays, with_prefix
from fedsuite.federation import (
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    Scalar,
    ServerState,
)
from fedsuite.settings.metrics import Metrics
from fedsuite.vln.message_keys import SPEAKER
from fedsuite.vln.metrics import AGENT_METRICS
from fedsuite.vln.stages import modules_of
from strategies.averaging import Averaging
from strategies.chains import trainers
from strategies.runtime.bookkeeping import BEST_ROUND
from strategies.scoring import by_split, evaluate_everywhere


@dataclass(frozen=True)
class HouseAveraging(Averaging):
    """Server side; what differs between stages and methods are values.

    metrics: the table by which houses' scores become one; speaker: sent once to every house that trains, where
    instructions are generated; writes: houses write submissions or spoken texts in the end; exports: models of their own;
    discloses: tell how much of the agents left the houses.
    """

    metrics: Metrics = AGENT_METRICS
    speaker: Arrays = field(default_factory=dict)
    writes: bool = False
    exports: bool = False
    discloses: bool = False

    def start(self, clients: Clients) -> Exchanges:
        """Hand out the speaker to every house that trains with it, and what stays with the houses."""
        yield self._handing_out(clients, self._spoken(trainers(clients)))
        return self._begun()

    def kinds(self, clients: Clients) -> Sequence[Clients]:
        return by_split(clients)

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The server's model on every house's validation instructions."""
        metrics = yield from evaluate_everywhere(state.arrays, clients, self.metrics)
        return RoundResult(state, metrics)

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The selected model is the run's result; the houses write and export what was asked for."""
        metrics: dict[str, float] = {}
        asked: dict[str, Scalar] = {"write": True} if self.writes else {}
        if self.exports:
            asked["export-round"] = int(state.scalars.get(BEST_ROUND, number))
        if asked:
            metrics = yield from evaluate_everywhere(state.selected, clients, self.metrics, asked)
        return RoundResult(ServerState(state.selected, state.scalars), metrics)

    def _spoken(self, clients: Clients) -> dict[int, Arrays]:
        """What these houses are sent of the speaker."""
        kept = with_prefix(self.speaker, SPEAKER)
        return {c.partition: kept for c in clients if kept}

    def _metrics(
        self, before: Arrays, after: Arrays, replies: Sequence[Reply], chosen: Clients
    ) -> dict[str, float]:
        """Those of every averaging, and what was disclosed."""
        metrics = super()._metrics(before, after, replies, chosen)
        return metrics | (disclosure(replies, chosen) if self.discloses else {})


def disclosure(replies: Sequence[Reply], chosen: Clients) -> dict[str, float]:
    """What the round's replies gave away: how many of the agent's modules, and of how many houses together."""
    sent = {module for reply in replies for module in modules_of(reply.arrays)}
    houses = max(c.count("training-houses") for c in chosen)
    return {"modules-sent": float(len(sent)), "houses-per-client": float(houses)}
