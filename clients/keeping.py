"""What every client that trains and keeps something at home does with it: restore, save, prune, roll back.

A visit that diverged leaves no trace: nothing of it is saved, the client goes on from what it had. If only its answer is
lost, it keeps what it has learnt. With control variates (SCAFFOLD) nothing of such a visit counts: what it changed never
came to c, the mean of all c_k. The same holds of what a codec left out of a change that never arrived.
"""

from typing import Any

from flwr.client import NumPyClient

from clients.numpy_client_app import Config
from fedsuite.arrays import Arrays
from fedsuite.runs.versions import Versions, checkpoint_rounds


class KeepingClient(NumPyClient):
    """private: what stays here, by round; keeps: every visit leaves something there; answered_alone: a visit whose answer is
    lost does not count."""

    def __init__(self, name: str, private: Versions, keeps: bool, answered_alone: bool) -> None:
        self.name, self.private = name, private
        self.keeps, self.answered_alone = keeps, answered_alone
        # The rounds of this client's training, where a best round is asked for.
        self._trained: list[int] = []

    def roll_back(self, config: Config) -> None:
        """With resume-round, private state newer than that round is dropped."""
        if "resume-round" in config:
            self.private.rollback(int(config["resume-round"]))

    def kept(self, before_round: int, least: int) -> Arrays:
        """The newest private version older than `before_round`, not older than `least`; {} if nothing was kept."""
        stored = self.private.load(before_round, least if self.keeps else 0)
        self._trained = list(stored[1].get("trained", [])) if stored else []
        return stored[0] if stored else {}

    def kept_to_train(self, number: int, config: Config) -> Arrays:
        """What round `number` goes on from; where answers alone count, versions after the last of these are dropped."""
        if self.answered_alone and "last-trained" in config:
            self.private.rollback(int(config["last-trained"]))
        return self.kept(number, int(config.get("last-trained", 0)))

    def kept_after(self, wanted: int, number: int, last_trained: int) -> Arrays:
        """The private version after round `wanted`, of those until round `number`; InputError if it is not there."""
        newest = last_trained if self.answered_alone else number
        arrays = self.kept(newest + 1, last_trained)
        if wanted >= newest:
            return arrays
        return self.kept(wanted + 1, max((r for r in self._trained if r <= wanted), default=0))

    def keep(self, number: int, config: Config, arrays: Arrays) -> None:
        """Save what stays here after training in round `number`, and drop versions that nobody can ask for."""
        if arrays:
            about: dict[str, Any] = {}
            if "best-round" in config:
                about |= {"best-round": int(config["best-round"])}
                about |= {"trained": [*self._trained, number]}
            self.private.save(number, arrays, about)
            self.private.prune(self._needed(config))

    def _needed(self, config: Config) -> list[int]:
        """Rounds whose version may be asked for: checkpoints, the best round, and the one that was best at a checkpoint.

        A resume may choose otherwise than the first time, where a GPU does not repeat itself. Where answers alone count
        also the one that counts if this round's answer is lost.
        """
        checkpoints = checkpoint_rounds(config)
        if self.answered_alone:
            checkpoints.append(int(config.get("last-trained", 0)))
        if "best-round" not in config:
            return checkpoints
        stored = (self.private.load(number + 1) for number in checkpoints)
        then = [int(s[1]["best-round"]) for s in stored if s and "best-round" in s[1]]
        return [*checkpoints, *then, int(config["best-round"])]
