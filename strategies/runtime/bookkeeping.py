"""What every run counts, whatever it learns: local steps, the server's learning rate, the best state so far.

Scalars of the server's state: local-steps, of all clients together; serial-depth, the longest chain of steps of which each
needed the one before, summed over rounds; server-learning-rate; best-round, best-score.0, best-score.1, ... and
evaluations-since-best.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedsuite.federation import Reply, RoundStrategy, Scalar, Selection, ServerState
from fedsuite.history import Kind, event

STEPS, DEPTH, RATE = "local-steps", "serial-depth", "server-learning-rate"
BEST_ROUND, BEST_SCORE, SINCE_BEST = "best-round", "best-score", "evaluations-since-best"


def begin(strategy: RoundStrategy, state: ServerState) -> ServerState:
    """The initial state with the counts of round 0."""
    rate: dict[str, Scalar] = {RATE: strategy.rate.rate} if strategy.rate else {}
    return replace(state, scalars={**rate, STEPS: 0, DEPTH: 0, **state.scalars})


def after_training(
    strategy: RoundStrategy, state: ServerState, replies: Sequence[Reply], depth: int
) -> tuple[ServerState, dict[str, float]]:
    """Count the steps of a round's replies and let eta decay; the metrics that say so. depth: the round's."""
    if not any("steps" in r.metrics for r in replies):
        return state, {}
    before = int(state.scalars[STEPS])
    after = before + sum(int(r.metrics.get("steps", 0)) for r in replies)
    deep = int(state.scalars[DEPTH]) + depth
    scalars: dict[str, Scalar] = {**state.scalars, STEPS: after, DEPTH: deep}
    metrics = {STEPS: float(after), DEPTH: float(deep)}
    if strategy.rate is not None:
        rate = float(state.scalars[RATE])
        metrics[RATE] = rate
        every = strategy.rate.every_steps
        scalars[RATE] = rate * strategy.rate.decay if after // every > before // every else rate
    return replace(state, scalars=scalars), metrics


def after_evaluation(
    selection: Selection, number: int, state: ServerState, metrics: Mapping[str, float]
) -> tuple[ServerState, bool]:
    """Keep the state if it is the best so far; whether it is. Metrics without the deciding one decide nothing."""
    wanted = selection.metrics
    if not wanted or wanted[0] not in metrics:
        return state, False
    score = tuple(metrics[name] for name in wanted)
    places = [f"{BEST_SCORE}.{i}" for i in range(len(score))]
    if BEST_ROUND in state.scalars and score <= tuple(float(state.scalars[p]) for p in places):
        since = int(state.scalars[SINCE_BEST]) + 1
        return replace(state, scalars={**state.scalars, SINCE_BEST: since}), False
    found: dict[str, Scalar] = {BEST_ROUND: number, SINCE_BEST: 0}
    found |= zip(places, score, strict=True)
    return replace(state, scalars={**state.scalars, **found}, best=state.arrays), True


def is_over(selection: Selection, state: ServerState) -> bool:
    """Whether the patience is used up."""
    return 0 < selection.patience <= int(state.scalars.get(SINCE_BEST, 0))


def is_last(strategy: RoundStrategy, state: ServerState, number: int, rounds: int) -> bool:
    """Whether no round comes after `number`: of those wanted, for lack of patience, or because the strategy says so."""
    return number >= rounds or is_over(strategy.selection, state) or ends(strategy, number)


def ends(strategy: RoundStrategy, number: int) -> bool:
    """Whether the strategy wants no round after `number`."""
    return bool(strategy.over(number + 1))


def ending(strategy: RoundStrategy, number: int, rounds: int) -> list[dict[str, Any]]:
    """What is told where the strategy ends a run before its last round."""
    reason = strategy.over(number + 1) if number < rounds else ""
    return [event(number, Kind.ENDS) | {"reason": reason}] if reason else []


def selected_round(state: ServerState) -> dict[str, float]:
    """The round whose state is the result, as a metric; {} if the last one's is."""
    if BEST_ROUND not in state.scalars:
        return {}
    return {"selected-round": float(state.scalars[BEST_ROUND])}
