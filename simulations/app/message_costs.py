"""How long a run takes on real nodes: so many messages one after another, each of which costs seconds whatever it carries.

An exchange with many clients at once counts as one message, since nodes work side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fedsuite.settings.config import RunSettings

COLD_S, WARM_S = (
    6.0,
    3.0,
)  # of a message, without computing: client processes that start anew, and warm ones
LONG_S = 3600.0


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


def long_run(settings: RunSettings, costs: StepCosts) -> str:
    """A line about a run that takes more than an hour before it computes anything; "" for others."""
    count = messages_of(settings, costs)
    if count * COLD_S <= LONG_S:
        return ""
    about = "" if costs.exact else "about "
    return (
        f"{about}{count:,} messages one after another, at {COLD_S:g} s each {duration(count * COLD_S)}, with warm clients "
        f"{duration(count * WARM_S)}, and computing comes on top; fewer: {costs.cure}"
    )


def duration(seconds: float) -> str:
    """In the unit that a reader would choose."""
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
