"""How long a run takes on real nodes: so many messages one after another, each of which costs seconds whatever it carries.

An exchange with many clients at once counts as one message, since nodes work side by side. How long it takes depends on how
many they are: the SuperLink is one process, which handles their messages in turn.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fedsuite.settings.config import RunSettings

COLD_S, WARM_S = (
    6.0,
    3.0,
)  # of a message, without computing: client processes that start anew, and warm ones
LONG_S = 3600.0
# CPU seconds of one message with its answer, warm, at the SuperLink (with the run's server) and at a node; what a megabyte
# of arrays each way adds; and how much more a cold node takes. Counted by benchmarks.deployed_messages, on the slower one of
# two machines; the other one took 0.25 and 0.3.
LINK_S, NODE_S, COLD_NODE_S = 0.37, 0.4, 3.0
LINK_S_PER_MB, NODE_S_PER_MB = 0.047, 0.046
# Until a node asks for the message, its answer is seen there, and the server looks for it: half of each pause, of the
# longest one for many nodes (simulations/deploy/polling.py, strategies/runtime/post.py).
WAITS_S = 1.5
# CPU seconds of the SuperLink for a node's question whether there is a message, which it asks every so often without a run.
QUESTION_S, IDLE_POLL_S = 0.015, 10.0


@dataclass(frozen=True)
class Deployment:
    """Nodes that are asked at once; megabytes of arrays, each way; cores: of the one machine on which SuperLink and nodes
    all are, 0 where every node has a machine of its own."""

    nodes: int
    megabytes: float = 0.4
    cores: int = 0

    @property
    def link_s(self) -> float:
        """CPU seconds of the SuperLink for an exchange with all nodes."""
        return self.nodes * (LINK_S + LINK_S_PER_MB * self.megabytes)

    def exchange_s(self, warm: bool) -> float:
        """Seconds of an exchange with all nodes, before anybody computes."""
        node = NODE_S + NODE_S_PER_MB * self.megabytes + (0.0 if warm else COLD_NODE_S)
        if not self.cores:
            return WAITS_S + self.link_s + node
        cores = min(self.cores, self.nodes + 1)
        return WAITS_S + max(self.link_s, (self.link_s + self.nodes * node) / cores)

    @property
    def idle_share(self) -> float:
        """Of a core of the SuperLink, while no run goes on."""
        return self.nodes * QUESTION_S / IDLE_POLL_S


@dataclass(frozen=True)
class StepCosts:
    """Exchanges of every step of a strategy, one after another.

    start: before round 1; first: the evaluation of the initial state; train: of round n; evaluate and close: of a round;
    finish: after the last; exact: whether these are the numbers, not estimates for what randomness decides; cure: how a
    run gets by with fewer.
    """

    train: Callable[[int], float]
    start: float = 0
    first: float = 1
    evaluate: float = 1
    close: float = 0
    finish: float = 0
    exact: bool = True
    cure: str = ""


def messages_of(settings: RunSettings, costs: StepCosts) -> int:
    """Messages of a whole run, the question who is there among them; a run that ends early has fewer.

    Estimates come with two digits.
    """
    rounds, every = settings.num_rounds, settings.evaluate_every
    evaluated = [n for n in range(1, rounds + 1) if n == rounds or (every > 0 and n % every == 0)]
    total = 1 + costs.start + costs.first + costs.finish
    total += sum(costs.train(n) + costs.close for n in range(1, rounds + 1))
    total += costs.evaluate * len(evaluated)
    return round(total) if costs.exact else round(float(f"{total:.1e}"))


def long_run(settings: RunSettings, costs: StepCosts, nodes: int = 0) -> str:
    """A line about a run that takes more than an hour before it computes anything; "" for others. nodes: its members,
    0 where that is open."""
    count, known = messages_of(settings, costs), Deployment(nodes)
    cold_s, warm_s = (
        max(least, known.exchange_s(warm)) for least, warm in ((COLD_S, False), (WARM_S, True))
    )
    if count * cold_s <= LONG_S:
        return ""
    about = "" if costs.exact else "about "
    return (
        f"{about}{count:,} messages one after another, at {cold_s:.2g} s each {duration(count * cold_s)}, with warm clients "
        f"{duration(count * warm_s)}, and computing comes on top; fewer: {costs.cure}"
    )


def duration(seconds: float) -> str:
    """In the unit that a reader would choose."""
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
