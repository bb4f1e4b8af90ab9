"""What the server of a star does beside averaging its silos' models: steps of an optimizer, and SCAFFOLD's c.

A server that steps has a model of its own. Delta is the mean of the silos' models, weighted as they are mixed, less that
model, or what another merge rule makes of their changes; what the optimizer makes of Delta
(fedsuite/averaging/server_optimizers.py) is what every silo that answered gets. Arrays without gradients, such as
BatchNorm's moments, are mixed as ever. A silo that did not answer goes on from what it had.
`ServerState.optimizer` has the model under `model.`, c under `control.`, and the optimizer's own state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.control_variates import CONTROL, server_control
from fedsuite.averaging.merging import ONE, ServerOptimizer, ServerStep, plain, server_step
from fedsuite.averaging.robust import WEIGHTED_MEAN, Merge
from fedsuite.driving.topology.mixing import Stack
from fedsuite.federation import Reply, ServerState
from strategies.averaging import mean_square
from strategies.chains import without
from strategies.private import Limit, no_limit
from strategies.steps import MERGE, SERVER_OPTIMIZER, Steps

MODEL = "model."


@dataclass(frozen=True)
class StarServer:
    """trained: arrays of a backbone that have gradients and travel; steps: whether the server has a model of its own, which
    `server_optimizer` moves by `step` along what `merge` makes of the silos' changes; corrects: control variates go beside
    the models; seed, remembers, limit: as of Averaging."""

    trained: tuple[str, ...] = ()
    steps: bool = False
    corrects: bool = False
    server_optimizer: ServerOptimizer = plain
    step: ServerStep = ONE
    seed: int = 0
    remembers: bool = False
    merge: Merge = WEIGHTED_MEAN
    limit: Limit = no_limit

    def begun(self, initial: Arrays) -> Arrays:
        """`ServerState.optimizer` before round 1: the model that all silos start from; c = 0."""
        own = {k: initial[k] for k in self.trained}
        zeros = {k: np.zeros_like(v) for k, v in own.items()}
        model, control = with_prefix(own, MODEL), with_prefix(zeros, CONTROL)
        return (model if self.steps else {}) | (control if self.corrects else {})

    def sent(self, state: ServerState, silos: int) -> Arrays:
        """What goes beside the backbones of a message, [S, ...]: c, a row for each of its silos."""
        control = under_prefix(state.optimizer, CONTROL)
        return with_prefix({k: np.repeat(c[None], silos, 0) for k, c in control.items()}, CONTROL)

    def after(
        self, number: int, state: ServerState, mixed: Stack, collected: Stack, a: np.ndarray,
        present: np.ndarray, replies: Sequence[Reply],
    ) -> tuple[ServerState, dict[str, float]]:  # fmt: skip
        """The state after round `number`, and what an optimizer of one's own says of it.

        collected, mixed: the silos' models [N, ...] before and after mixing by a [N, N]; present [N]: who answered.
        """
        steps = Steps(self.seed, number, state, self.remembers)
        arrays, here = dict(mixed), np.flatnonzero(present)
        model, control = (under_prefix(state.optimizer, k) for k in (MODEL, CONTROL))
        own = dict(without(without(state.optimizer, MODEL), CONTROL))
        if model and len(here):
            weights, ends = a[here[0], here], [{k: collected[k][i] for k in model} for i in here]
            step = replace(
                self.step,
                **vars(steps.of(SERVER_OPTIMIZER)),
                mean_square=partial(mean_square, model, ends, weights),
            )
            delta = self.merge(model, ends, weights, steps.of(MERGE)).delta
            model, own = server_step(model, delta, step, self.server_optimizer, own)
            for name, value in model.items():
                arrays[name] = np.array(mixed[name])
                arrays[name][here] = value
        sent: list[Arrays] = []  # of every silo that answered, how much its own changed
        for rows in ({CONTROL + k: r.arrays[CONTROL + k] for k in control} for r in replies):
            sent += [
                dict(zip(rows, silo, strict=True)) for silo in zip(*rows.values(), strict=True)
            ]
        control = server_control(control, sent, len(present))
        own |= with_prefix(model, MODEL) | with_prefix(control, CONTROL)
        after = replace(state, arrays=arrays, optimizer=own, rules=steps.kept(replies))
        return after, steps.metrics


AVERAGES = StarServer()
"""Nothing beside averaging."""
