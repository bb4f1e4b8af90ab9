"""Federated pre-exploration: Algorithm 2 of FedVLN (Zhou & Wang 2022), averaging the language encoder alone.

Before anybody asks a robot to walk in an unseen house, its agent practises there on sampled paths that the speaker
describes. Every house keeps an agent of its own: encoder E, trajectory encoder and decision module D, critic C. Each
round

  1. int(r2 N) unseen houses and, with seen data, int(r1 M) seen houses are drawn, each group from a stream of its own;
  2. a house gets the server's E, puts it into its own agent, and trains all of it for ceil(tau n_k / B) steps;
  3. it sends E back, nothing else; the server sets E <- E + eta sum_k p_k (E_k - E);
  4. every unseen house is scored by its own agent on its validation instructions.

The baselines of the paper's Table 6 differ in their share: the whole agent (Fed-Full), or nothing (environment-based).
Before round 1 the server hands the trained agent to every house, and the speaker to the unseen ones.
"""

from dataclasses import dataclass

from fedsuite.federation import Clients, Exchanges, RoundResult, Scalar, ServerState, Task
from strategies.house_averaging import HouseAveraging
from strategies.runtime.bookkeeping import BEST_ROUND
from strategies.scoring import merged_scores

UNSEEN = "unseen"  # detail of a client: whether its house is an unseen one


@dataclass(frozen=True)
class LanguageEncoderFedAvg(HouseAveraging):
    """Server side of pre-exploration with personal agents. newest: score houses with the server's newest encoder put in."""

    newest: bool = False

    def start(self, clients: Clients) -> Exchanges:
        """The agent to start from, to every house, and the speaker to those that learn from what it says."""
        spoken = self._spoken([c for c in clients if c.count(UNSEEN)])
        yield self._handing_out(clients, spoken)
        return self._begun()

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        sent = state.arrays if self.newest else {}
        who = [c for c in clients if c.count(UNSEEN) and c.details.get("val_unseen.count", 0)]
        replies = yield [Task(c.partition, "evaluate", sent, {}, {}) for c in who]
        return RoundResult(state, merged_scores(replies, self.metrics))

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """Every house exports its agent of the selected round and is scored with it; the server keeps what was merged."""
        selected = int(state.scalars.get(BEST_ROUND, number))
        asked: dict[str, Scalar] = {"export-round": selected, "write": self.writes}
        replies = yield [
            Task(c.partition, "evaluate", {}, asked | {"score": bool(c.count(UNSEEN))}, {})
            for c in clients
        ]
        metrics = merged_scores([r for r in replies if r.num_examples], self.metrics)
        return RoundResult(ServerState(state.selected, state.scalars), metrics)
