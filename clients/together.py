"""Several simulated clients that one message is for: they work in one process, one after another or side by side.

What is sent back of a training is the sum of their weighted changes, so that what one of them has learnt leaves the process
only as a part of that sum, or else a reply of each; in both cases with the metrics of each. A reply of its own is what the
client would have sent to a message of its own. The process itself sees the data of all, so this is for simulations.
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
    error_text,
    named_arrays,
    named_reply,
)
from clients.side_by_side import Ask, side_by_side
from fedsuite.arrays import Arrays, range_complaint, with_prefix
from fedsuite.averaging.partial_sums import (
    SUM,
    WEIGHT,
    sum_of_changes,
    tree_sum,
    weighted_change,
)
from fedsuite.averaging.several_clients import (
    FAILED,
    MEMBERS,
    SECONDS,
    START,
    for_member,
    of_member,
)
from fedsuite.errors import RunFailed

Answer = tuple[Arrays, int, Config]  # of one member: what it sends, how many examples, what it says
Asked = tuple[int, Arrays, Config]  # a member, the arrays that it starts from, and its settings
Visit = Callable[..., Answer]  # of a client, with the arrays and the settings
Answers = Callable[
    [int], Answer | Exception
]  # by place among the members, each asked for once, in order


class TogetherClient(NumPyClient):
    """Client `partition`, who stands for others.

    names: of all clients; open_client: by partition, and with a place a model of that place; together: answers what all
    clients of a message ask for, None = each client works by itself.
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
        """Metrics under each member's partition. A message without members is for this client alone."""
        if MEMBERS not in config:
            found: Scored = self.open_client(self.partition).evaluate(parameters, config)
            return found
        visits = _visits(parameters, config)
        _, total, metrics = _apart(visits, self._answers(_scored, visits))
        metrics.pop(NAMES)
        return 0.0, total, metrics

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """The sum over the members of p_k (w_k - w), float64, under `sum.`, or the arrays that each sends, under its
        partition; metrics under each member's partition. A message without members is for this client alone."""
        if MEMBERS not in config:
            fitted: Fitted = self.open_client(self.partition).fit(parameters, config)
            return fitted
        visits = _visits(parameters, config)
        answers = self._answers(_trained, visits)
        return _apart(visits, answers) if START in visits[0][2] else self._sum(visits, answers)

    def _sum(self, visits: Sequence[Asked], answers: Answers) -> Fitted:
        """One error is everybody's: in a sum nobody could be named any more, so it is named here."""
        counts: list[int] = []
        metrics: Config = {}

        def trained(place: int) -> Arrays:
            partition, _, _ = visits[place]
            name, one = self.names[partition], answers(place)
            if isinstance(one, Exception):
                raise RunFailed(f"{name}: {type(one).__name__}: {one}") from one
            arrays, count, said = one
            if complaint := range_complaint(arrays):
                raise RunFailed(f"{name}: {complaint}")
            metrics.update(for_member({**said, "num-examples": count}, partition))
            counts.append(count)
            return arrays

        start, places = visits[0][1], range(len(visits))
        weights = [float(config[WEIGHT]) for _, _, config in visits]
        if self.together:  # where all have been asked for, and are there
            total = sum_of_changes(start, [trained(place) for place in places], weights)
        else:
            total = tree_sum(
                lambda place: weighted_change(start, trained(place), weights[place]), len(visits)
            )
        return named_reply(with_prefix(total, SUM), sum(counts), metrics)

    def _answers(self, visit: Visit, visits: Sequence[Asked]) -> Answers:
        """Of members one after another, when they are asked for, or of all side by side before."""
        found = self._side_by_side(visit, visits) if self.together else {}
        return lambda place: found.pop(place) if found else self._tried(visit, *visits[place])

    def _side_by_side(self, visit: Visit, visits: Sequence[Asked]) -> dict[int, Answer | Exception]:
        """By place; each is said to have taken its share of the time."""

        def at(place: int) -> Callable[[Ask], Answer | Exception]:
            return lambda ask: self._tried(visit, *visits[place], place=place, ask=ask)

        assert self.together is not None
        begin = time.perf_counter()
        found = side_by_side([at(place) for place in range(len(visits))], self.together)
        share = (time.perf_counter() - begin) / len(visits)
        for one in found:
            if not isinstance(one, Exception):
                one[2][SECONDS] = share
        return dict(enumerate(found))

    def _tried(
        self, visit: Visit, partition: int, start: Arrays, config: Config, **beside: Any
    ) -> Answer | Exception:
        """One member's answer, or why there is none."""
        begin = time.perf_counter()
        try:
            scores = visit is _scored
            client = self.open_client(partition, scores=scores, **beside)
            arrays, count, said = visit(client, start, {**config, NAMES: "\n".join(start)})
        except Exception as error:
            return error
        return arrays, int(count), {**said, SECONDS: time.perf_counter() - begin}


def _visits(parameters: Parameters, config: Config) -> list[Asked]:
    """What a message asks of each member. All of a sum start from the same arrays."""
    received = named_arrays(parameters, config)
    members = [int(p) for p in str(config[MEMBERS]).split(",")]
    settings = [{**config, **of_member(config, partition)} for partition in members]
    return [
        (p, of_member(received, own[START]) if START in own else received, own)
        for p, own in zip(members, settings, strict=True)
    ]


def _apart(visits: Sequence[Asked], answers: Answers) -> Fitted:
    """Every member's own reply; who fails is left out, and what went wrong is told."""
    sent: Arrays = {}
    metrics: Config = {}
    failed: dict[str, str] = {}
    total = 0
    for place, (partition, *_) in enumerate(visits):
        one = answers(place)
        if isinstance(one, Exception):
            failed[str(partition)] = error_text(one)
            continue
        arrays, count, said = one
        sent |= for_member(arrays, partition)
        metrics |= for_member({**said, "num-examples": count}, partition)
        total += count
    return named_reply(sent, total, metrics | ({FAILED: failed} if failed else {}))


def _trained(client: NumPyClient, start: Arrays, config: Config) -> Answer:
    sent, count, said = client.fit([*start.values()], config)
    return named_arrays(sent, {NAMES: said.pop(NAMES, config[NAMES])}), count, said


def _scored(client: NumPyClient, start: Arrays, config: Config) -> Answer:
    loss, count, said = client.evaluate([*start.values()], config)
    return {}, count, {"loss": float(loss), **said}
