"""Several simulated clients that one message is for: they train one after another from the same model, in one process.

What is sent back is the sum of their weighted changes, and of each its metrics; so what one of them has learnt leaves the
process only as a part of that sum. The process itself sees the data of all, so this is for simulations.
"""

import time
from collections.abc import Callable, Sequence

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
from fedsuite.arrays import Arrays, range_complaint, with_prefix
from fedsuite.averaging.partial_sums import (
    MEMBERS,
    SECONDS,
    SUM,
    WEIGHT,
    for_member,
    of_member,
    tree_sum,
    weighted_change,
)
from fedsuite.errors import RunFailed


class TogetherClient(NumPyClient):
    """Client `partition`, who stands for others in training. names: of all clients; open_client: by partition."""

    def __init__(
        self, partition: int, names: Sequence[str], open_client: Callable[[int], NumPyClient]
    ) -> None:
        self.partition, self.names, self.open_client = partition, names, open_client

    def get_properties(self, config: Config) -> Config:
        return dict(self.open_client(self.partition).get_properties(config))

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        found: Scored = self.open_client(self.partition).evaluate(parameters, config)
        return found

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """The sum over the members of p_k (w_k - w), float64, under `sum.`; metrics under each member's partition."""
        start = named_arrays(parameters, config)
        members = [int(p) for p in str(config[MEMBERS]).split(",")]
        counts: list[int] = []
        metrics: Config = {}

        def leaf(place: int) -> Arrays:
            partition = members[place]
            own = {**config, **of_member(config, partition)}
            begin = time.perf_counter()
            arrays, count, said = self._fit_one(partition, parameters, own)
            said = {**said, "num-examples": count, SECONDS: time.perf_counter() - begin}
            metrics.update(for_member(said, partition))
            counts.append(count)
            return weighted_change(start, arrays, float(own[WEIGHT]))

        total = tree_sum(leaf, len(members))
        return named_reply(with_prefix(total, SUM), sum(counts), metrics)

    def _fit_one(
        self, partition: int, parameters: Parameters, config: Config
    ) -> tuple[Arrays, int, Config]:
        """One member's training; in a sum nobody could be named any more, so it is named here."""
        name = self.names[partition]
        try:
            sent, count, said = self.open_client(partition).fit(parameters, config)
        except Exception as error:
            raise RunFailed(f"{name}: {type(error).__name__}: {error}") from error
        arrays = named_arrays(sent, {NAMES: said.pop(NAMES, config[NAMES])})
        if complaint := range_complaint(arrays):
            raise RunFailed(f"{name}: {complaint}")
        return arrays, int(count), said
