"""What a party does at each message of its protocol (strategies/two_party.py), by the name of the part.

What leaves a party is made here and nowhere else: noised Q-values, ids, targets, joint actions, the shared MLP, and, from
the rewarded party to the run's history, means of rewards and scores.
"""

from typing import Any

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.fedrl.learning import single_party
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.learning.testing import plan_of

MLP = "mlp."
Answer = tuple[Arrays, dict[str, float]]


class PartyParts:
    """The parts of the protocol: message content in, message content out."""

    def __init__(self, party: Party, arrays: Arrays, config: dict[str, Any]) -> None:
        self.party, self.arrays, self.config = party, arrays, config

    def answer(self, phase: str) -> Answer:
        parts = {
            "propose": self.propose, "act": self.act, "answer": self.reply,
            "learn-first": self.learn_first, "learn": self.learn, "train-alone": self.train_alone,
            "imitate": self.imitate, "look": self.look, "choose": self.choose,
            "scores": self.scores, "close": self.close,
        }  # fmt: skip
        return parts[phase]()

    # --- training --------------------------------------------------------------------------------

    def propose(self) -> Answer:
        return {"proposal": self.party.propose(self.exchange)}, {}

    def act(self) -> Answer:
        actions, episodes, ids = self.alpha.act(self.exchange, self._blocks("q."), self._mlp())
        self.party.answered = ids if len(ids) else None
        ended = {"ended": float((episodes >= 0).sum())}
        return {"actions": actions, "episodes": episodes, "ids": ids}, ended

    def reply(self) -> Answer:
        a = self.arrays
        q, q_next = self.party.answer(self.exchange, a["actions"], a["episodes"], a["ids"])
        self.party.answered = a["ids"] if len(a["ids"]) else None
        return {"q": q, "q-next": q_next}, {}

    def learn_first(self) -> Answer:
        targets, q = self.alpha.learn_first(
            self.exchange, self.arrays["ids"], self._blocks("q."), self._blocks("q-next.")
        )
        self.party.answered = None
        return {"targets": targets, "q": q} | with_prefix(self.alpha.shared_mlp(), MLP), {}

    def learn(self) -> Answer:
        a, party = self.arrays, self.party
        mlp = party.learn(self.exchange, a["ids"], a["targets"], self._blocks("q."), self._mlp())
        party.answered = None
        proposal = {"proposal": party.propose(self.exchange + 1)}
        alternating = party.rules.mlp_updates == "alternating"
        return proposal | (with_prefix(mlp, MLP) if alternating else {}), {}

    def train_alone(self) -> Answer:
        first, count = int(self.config["first"]), int(self.config["count"])
        done = single_party.train_alone(self.alpha, first, count, int(self.config["most-episodes"]))
        return {}, {"exchanges": float(done)}

    def imitate(self) -> Answer:
        single_party.imitate(self.alpha, int(self.config["round"]), int(self.config["count"]))
        return {}, {}

    def close(self) -> Answer:
        if self.config["best"]:
            self.party.keep_as_best()
        return {}, self.party.report() if isinstance(self.party, RewardedParty) else {}

    # --- tests -----------------------------------------------------------------------------------

    def look(self) -> Answer:
        if int(self.config["tick"]) == 0:
            self.party.begin_test(plan_of(self.config))
        else:
            assert self.party.test is not None
            self.party.test.advance(self.arrays["actions"])
        return {"q": self.party.look()}, {}

    def choose(self) -> Answer:
        if int(self.config["tick"]) == 0:
            self.party.begin_test(plan_of(self.config))
        actions = self.alpha.choose(self._blocks("q."), self._mlp())
        assert self.party.test is not None
        return {"actions": actions}, {"active": float(self.party.test.active.sum())}

    def scores(self) -> Answer:
        if self.party.num_parties == 1:
            single_party.play_alone(self.alpha, plan_of(self.config))
        return {}, self.alpha.scores()

    # --- pieces ----------------------------------------------------------------------------------

    @property
    def exchange(self) -> int:
        return int(self.config["exchange"])

    @property
    def alpha(self) -> RewardedParty:
        if not isinstance(self.party, RewardedParty):
            raise ValueError(f"{self.party.role}: has no rewards, but got a message for alpha")
        return self.party

    def _blocks(self, prefix: str) -> list[np.ndarray]:
        """Arrays called `prefix` + party number, in party order."""
        found = under_prefix(self.arrays, prefix)
        return [found[p] for p in sorted(found, key=int)]

    def _mlp(self) -> Arrays:
        return under_prefix(self.arrays, MLP)
