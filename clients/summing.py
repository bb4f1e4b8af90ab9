"""A client whose changes leave it masked: any client that trains named arrays, as a member of secure sums.

What fedsuite/privacy/secure_sum.py says of a member, stage by stage. Between stages its secrets lie in
<private>/secure-sum/, for its owner alone, and are deleted before the last answer leaves. <private>/secure-sum-peers/ keeps
who its peers are: a node whose file has an own-key takes those for peers whose keys its roster names; any other draws a key,
and holds every peer to the one that it was first told of in the run.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.numpy_client_app import (
    NAMES,
    Config,
    Fitted,
    Parameters,
    Scored,
    named_arrays,
    named_reply,
)
from clients.sum_messages import instruction_of, read_list, refuse, table
from clients.sum_state import Peers, Stage, SumState, secrets_of
from fedsuite.arrays import Arrays
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.merging import relative_weights
from fedsuite.messages.instructions import Instruction, task
from fedsuite.privacy.secure_sum import SEALED_BYTES, Listed, masked, opened_shares, sealed_shares
from fedsuite.privacy.shamir import SHARE_BYTES
from fedsuite.privacy.sum_terms import (
    CLIP,
    KEYS,
    MASKED,
    SHARES,
    STAGE,
    UNMASK,
    SumTerms,
    numbers_in,
    numbers_text,
)  # fmt: skip


class SummingClient(NumPyClient):
    """inner: the client itself; partition: which member it is, of `members` on the roster; rounds: of the run; noise: round
    -> the generator of what is added to its change, if the run adds noise."""

    def __init__(
        self,
        inner: NumPyClient,
        terms: SumTerms,
        state: SumState,
        peers: Peers,
        partition: int,
        members: int,
        rounds: int,
        noise: Callable[[int], np.random.Generator],
    ) -> None:
        self.inner, self.terms, self.state, self.peers = inner, terms, state, peers
        self.partition, self.members, self.rounds = partition, members, rounds
        self.noise = noise

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say: no training in the clear."""
        own = getattr(self.inner, "instruction", None)
        if kind != "train":
            return own(kind, config) if own else task(self.rounds)
        inner = own(kind, config) if own else task(self.rounds)
        adapts = self.terms.adapts
        return instruction_of(config.get(STAGE), inner, self.rounds, self.members, adapts)

    def get_properties(self, config: Config) -> dict[str, Any]:
        """Who this is; with resume-round, sums of later rounds have not been."""
        if "resume-round" in config:
            self.state.clear()
            self.peers.go_back(int(config["resume-round"]))
        return dict(self.inner.get_properties(config))

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """As the client itself; whoever is asked for a score was left out of a sum that it had not come to the end of."""
        self.state.clear()
        return self.inner.evaluate(parameters, config)

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """One stage."""
        stage, number = str(config[STAGE]), int(config["round"])
        if stage == MASKED:
            return self._masked(number, parameters, config)
        arrays = named_arrays(parameters, config)
        if stage == KEYS:
            return named_reply({"keys": self._keys(number)}, 0, {})
        if stage == SHARES:
            return named_reply({"shares": self._shares(number, arrays, config)}, 0, {})
        return named_reply({"shares": self._unmask(number, arrays, config)}, 0, {})

    # --- the stages -------------------------------------------------------------------------------

    def _keys(self, number: int) -> np.ndarray:
        """What peers are told of this member; asked again before it has sent shares, the same."""
        if number <= self.peers.unmasked:
            wanted = f"a round after {self.peers.unmasked}, whose sum is out"
            refuse(self.partition, "round", number, wanted)
        at = self.state.read()
        if at is None or at.round != number:
            at = self.state.write(Stage.begun(number))
        if at.name != KEYS:
            refuse(self.partition, STAGE, KEYS, f"what follows {at.name}")
        own = self.peers.introduced(number, self.partition, secrets_of(at).public)
        return np.frombuffer(own, np.uint8)

    def _shares(self, number: int, arrays: Arrays, config: Config) -> np.ndarray:
        """Two shares for every member, encrypted for it; the list of members is fixed by that."""
        at = self._at(number, SHARES, (KEYS, SHARES))
        listed, known = read_list(
            arrays, number, int(config["threshold"]), self.partition, self.members
        )
        self._check_own(listed, at)
        if at.name == SHARES and at.listed.digest != listed.digest:
            refuse(self.partition, "members", "another list", "the list of before")
        self.peers.meet(known, partial(refuse, self.partition, "keys"))
        sealed = sealed_shares(self.partition, secrets_of(at), listed)
        own = np.frombuffer(sealed[self.partition], np.uint8)
        self.state.write(at.with_list(listed, own))
        rows = [np.frombuffer(sealed[p], np.uint8) for p in sorted(listed.keys)]
        rows[sorted(listed.keys).index(self.partition)] = np.zeros(SEALED_BYTES, np.uint8)
        return np.stack(rows)

    def _masked(self, number: int, parameters: Parameters, config: Config) -> Fitted:
        """The change of a visit of the client itself, masked; asked again, the same."""
        at = self._at(number, MASKED, (SHARES, MASKED))
        members = numbers_in(config["members"])
        listed, least = at.listed, self.terms.fewest(len(at.listed.keys))
        if self.partition not in members or not set(members) <= listed.keys.keys():
            wanted = "members that sent shares, this one among them"
            refuse(self.partition, "members", config["members"], wanted)
        if len(members) < least:
            wanted = f"at least {least} of {len(listed.keys)}"
            refuse(self.partition, "members", config["members"], wanted)
        clip = config.get(CLIP)
        if clip and 0 < self.terms.largest_clip < clip:
            refuse(self.partition, CLIP, clip, f"{self.terms.largest_clip:g} at most")
        if at.name == MASKED:
            if members != at.members:
                refuse(self.partition, "members", config["members"], numbers_text(at.members))
            return named_reply({"masked": at.vector}, at.examples, at.metrics)
        own = {k: v for k, v in config.items() if k not in (STAGE, "members", CLIP)}
        received = named_arrays(parameters, config)
        sent, examples, metrics = self.inner.fit(parameters, own)
        names = {NAMES: metrics.pop(NAMES, config[NAMES])}
        model = named_arrays(sent, names)
        relative = relative_weights([listed.counts[p] for p in members], self.terms.most)
        weight = float(relative[members.index(self.partition)])
        change, weights = _change(received, model), _weights(model, weight)
        levels = self.terms.levels(len(listed.keys), len(members), clip)
        words = levels.rounded(change, weights, self.noise(number))
        vector = masked(self.partition, secrets_of(at), listed, members, words)
        self.state.write(at.with_vector(members, vector, examples, metrics))
        return named_reply({"masked": vector}, examples, metrics)

    def _unmask(self, number: int, arrays: Arrays, config: Config) -> np.ndarray:
        """One share of every member, of its seed or of its key; once, the secrets are gone after it."""
        if number <= self.peers.unmasked:
            refuse(self.partition, STAGE, UNMASK, "no second unmasking of a round")
        at = self._at(number, UNMASK, (MASKED,))
        alive, dead = numbers_in(config["alive"]), numbers_in(config["dead"])
        if sorted(alive + dead) != at.members or self.partition not in alive:
            told = f"{config['alive']} and {config['dead']}"
            every = f"each of {numbers_text(at.members)} in one of them"
            refuse(self.partition, "alive, dead", told, f"{every}, {self.partition} in the first")
        if len(alive) < (least := self.terms.fewest(len(at.listed.keys))):
            refuse(self.partition, "alive", config["alive"], f"at least {least} members")
        boxes = table(arrays, "shares", (len(at.members), SEALED_BYTES), self.partition)
        sealed = {p: row.tobytes() for p, row in zip(at.members, boxes, strict=True)}
        sealed[self.partition] = at.own_box
        try:
            found = opened_shares(self.partition, secrets_of(at), at.listed, sealed, alive)
        except ValueError as error:
            refuse(self.partition, "shares", str(error), "those that its peers sent it")
        self.peers.unmask(number)
        self.state.clear()
        rows = [np.frombuffer(found[p], np.uint8) for p in at.members]
        return np.stack(rows).reshape(len(at.members), SHARE_BYTES)

    def _at(self, number: int, stage: str, after: Sequence[str]) -> Stage:
        """Where this member is, which must be one of `after` in this round."""
        at = self.state.read()
        if at is None or at.round != number or at.name not in after:
            here = f"{at.name} of round {at.round}" if at else "no sum under way"
            refuse(self.partition, STAGE, f"{stage} of round {number}", f"what follows {here}")
        return at

    def _check_own(self, listed: Listed, at: Stage) -> None:
        """What a list says of this member, and how many must answer."""
        if listed.keys[self.partition] != secrets_of(at).public:
            refuse(self.partition, "keys", "others in the place of this member's", "its own")
        own = int(self.inner.get_properties({})["num-examples"]) if self.terms.counted else 1
        if listed.counts[self.partition] != own:
            refuse(self.partition, "counts", listed.counts[self.partition], own)
        if len(listed.keys) < self.terms.least:
            refuse(self.partition, "members", len(listed.keys), f"at least {self.terms.least}")
        if listed.threshold != (needed := self.terms.needed(len(listed.keys))):
            refuse(self.partition, "threshold", listed.threshold, needed)


def _change(start: Arrays, model: Arrays) -> np.ndarray:
    """What training has changed, by name, as one vector [d] float64; of control variates it is what was sent."""
    parts = [
        model[k].astype(np.float64).ravel() - (0 if k.startswith(CONTROL) else start[k].ravel())
        for k in sorted(model)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _weights(model: Arrays, weight: float) -> float | np.ndarray:
    """What a change is multiplied by, [d] where it has control variates: members' count alike."""
    if not any(k.startswith(CONTROL) for k in model):
        return weight
    parts = [
        np.full(model[k].size, 1.0 if k.startswith(CONTROL) else weight) for k in sorted(model)
    ]
    return np.concatenate(parts)
