"""Federated pre-exploration: Algorithm 2 of FedVLN (Zhou & Wang 2022), averaging the language encoder alone.

Before anybody asks a robot to walk in an unseen house, its agent practises there on sampled paths that the speaker
describes. Every house keeps an agent of its own: encoder E, trajectory encoder and decision module D, critic C. Each
round

  1. int(r2 N) unseen houses and, with seen data, int(r1 M) seen houses are drawn, each group from a stream of its own;
  2. a house gets the server's E, puts it into its own agent, and trains all of it for ceil(tau n_k / B) steps;
  3. it sends E back, nothing else; the server sets E <- E + eta sum_k p_k (E_k - E);
  4. every unseen house is scored by its own agent on its validation instructions.

The baselines of the paper's Table 6 differ in what is sent (fedsuite.vln.stages.leaves_house): the whole agent (share
= agent) or nothing (method = local-only). Before round 1 the server hands the trained agent to every house, and the speaker
to the unseen ones.
"""

from collections.abc import Generator, Sequence

from fedsuite.arrays import Arrays, with_prefix
from fedsuite.federation import ClientInfo, Exchanges, Reply, RoundResult, Scalar, ServerState, Task
from fedsuite.vln.stages import leaves_house
from fedsuite.vln.wire import SPEAKER
from strategies.house_averaging import HouseAveraging
from strategies.participation import participants, published_participants
from strategies.scoring import agent_means, merged_scores
from strategies.selection import BEST_ROUND

UNSEEN = "unseen"  # detail of a client: whether its house is an unseen one


class LanguageEncoderFedAvg(HouseAveraging):
    """Server side of pre-exploration with personal agents."""

    def finish(self, state: ServerState, clients: Sequence[ClientInfo]) -> Exchanges:
        """Every house exports its agent of the selected round and is scored with it; the server keeps what was merged."""
        number = int(state.scalars.get(BEST_ROUND, self.config.num_rounds))
        asked: dict[str, Scalar] = {"export-round": number, "write": self.config.submission}
        replies = yield [Task(c.partition, "evaluate", {}, asked, {}) for c in clients]
        metrics = merged_scores([r for r in replies if r.num_examples], agent_means)
        metrics |= self._selected_round(state)
        return RoundResult(ServerState(self._selected(state), state.scalars), metrics)

    def _hand_out(self, clients: Sequence[ClientInfo]) -> Generator[Sequence[Task], object, None]:
        """The agent to start from, to every house, and the speaker to those that learn from what it says."""
        spoken = with_prefix(self.speaker, SPEAKER)
        yield [
            Task(
                c.partition,
                "evaluate",
                {**self.initial, **(spoken if c.details[UNSEEN] else {})},
                {"keep": True},
                {},
            )
            for c in clients
        ]

    def _start_arrays(self) -> Arrays:
        return leaves_house(self.config, self.initial)

    def _evaluate(
        self, number: int, model: Arrays, clients: Sequence[ClientInfo]
    ) -> Generator[Sequence[Task], Sequence[Reply], dict[str, float]]:
        """Unseen houses walk with their own agents, with the server's newest encoder put in if so configured."""
        sent = model if self.config.personal_encoder == "newest" else {}
        who = [c for c in clients if c.details[UNSEEN] and c.details.get("val_unseen.count", 0)]
        replies = yield [Task(c.partition, "evaluate", sent, {}, {}) for c in who]
        return merged_scores(replies, agent_means)

    def _participants(self, number: int, clients: Sequence[ClientInfo]) -> list[ClientInfo]:
        c = self.config
        unseen = [x for x in clients if x.details[UNSEEN] and x.num_examples > 0]
        if c.participation == "published":
            return published_participants(unseen, c.participation_rate, number)
        chosen = participants(unseen, c.participation_rate, c.seed, number, "unseen")
        seen = [x for x in clients if not x.details[UNSEEN] and x.num_examples > 0]
        if seen and c.seen_participation_rate:
            chosen += participants(seen, c.seen_participation_rate, c.seed, number, "seen")
        return sorted(chosen, key=lambda client: client.partition)
