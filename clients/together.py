"""Several simulated clients that one message is for: they train from the same model in one process, one after another or
side by side.

What is sent back is the sum of their weighted changes, and of each its metrics; so what one of them has learnt leaves the
process only as a part of that sum. The process itself sees the data of all, so this is for simulations.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

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
from clients.side_by_side import Ask, side_by_side
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

Trained = tuple[
    Arrays, int, Config
]  # of one member: what it sends, how many examples, what it says


class TogetherClient(NumPyClient):
    """Client `partition`, who stands for others in training.

    names: of all clients; open_client: by partition, and with a place a model of that place; together: takes the trainings
    that all clients of a message ask for, None = each client trains by itself.
    """

    def __init__(
        self,
        partition: int,
        names: Sequence[str],
        open_client: Callable[..., NumPyClient],
        together: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self.partition, self.names, self.open_client = partition, names, open_client
        self.together = together

    def get_properties(self, config: Config) -> Config:
        return dict(self.open_client(self.partition).get_properties(config))

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        found: Scored = self.open_client(self.partition).evaluate(parameters, config)
        return found

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """The sum over the members of p_k (w_k - w), float64, under `sum.`; metrics under each member's partition."""
        start = named_arrays(parameters, config)
        members = [int(p) for p in str(config[MEMBERS]).split(",")]
        settings = [{**config, **of_member(config, partition)} for partition in members]
        found = self._side_by_side(members, parameters, settings) if self.together else {}
        counts: list[int] = []
        metrics: Config = {}

        def leaf(place: int) -> Arrays:
            partition, own = members[place], settings[place]
            arrays, count, said = (
                found.pop(place) if found else self._fit_one(partition, parameters, own)
            )
            metrics.update(for_member({**said, "num-examples": count}, partition))
            counts.append(count)
            return weighted_change(start, arrays, float(own[WEIGHT]))

        total = tree_sum(leaf, len(members))
        return named_reply(with_prefix(total, SUM), sum(counts), metrics)

    def _side_by_side(
        self, members: Sequence[int], parameters: Parameters, settings: Sequence[Config]
    ) -> dict[int, Trained]:
        """Of all members, by place; each is said to have taken its share of the time."""

        def visit(place: int) -> Callable[[Ask], Trained]:
            return lambda ask: self._fit_one(
                members[place], parameters, settings[place], place=place, ask=ask
            )

        assert self.together is not None
        begin, places = time.perf_counter(), range(len(members))
        found = side_by_side([visit(place) for place in places], self.together)
        share = (time.perf_counter() - begin) / len(members)
        return {
            place: (arrays, count, {**said, SECONDS: share})
            for place, (arrays, count, said) in zip(places, found, strict=True)
        }

    def _fit_one(
        self, partition: int, parameters: Parameters, config: Config, **beside: Any
    ) -> Trained:
        """One member's training; in a sum nobody could be named any more, so it is named here."""
        name, begin = self.names[partition], time.perf_counter()
        try:
            client = self.open_client(partition, **beside)
            sent, count, said = client.fit(parameters, config)
        except Exception as error:
            raise RunFailed(f"{name}: {type(error).__name__}: {error}") from error
        arrays = named_arrays(sent, {NAMES: said.pop(NAMES, config[NAMES])})
        if complaint := range_complaint(arrays):
            raise RunFailed(f"{name}: {complaint}")
        return arrays, int(count), {**said, SECONDS: time.perf_counter() - begin}
