"""SCAFFOLD's control variates (Karimireddy et al. 2020, 1910.06378): every local gradient is corrected by c - c_k.

c_k is a client's estimate of its own gradient, c the mean of all clients'. A visit of K steps adds c - c_k to each gradient,
before clipping and moments, and then takes for c_k the mean of its K gradients without that (option II; for SGD it is the
paper's c_k - c + (w - w_k) / (K lr), which is wrong under RMSprop or Adam). c_k stays at home; what is sent is how much it
changed. The server: c += (1 / N) sum over participants of that, N all clients, absent ones too.

What a visit does to gradients is in correction.py.
"""

from collections.abc import Sequence

import numpy as np

from fedsuite.arrays import Arrays, Named

CONTROL = "control."
"""Prefix of control variates where they travel beside a model, and on a client's disk."""


def server_control(control: Named, replies: Sequence[Named], count: int) -> Arrays:
    """c + (1 / count) sum of the participants' changes, in the type of c; sums in float64. replies: what participants sent,
    with the changes under CONTROL."""
    return {
        k: np.asarray(c + sum(r[CONTROL + k].astype(np.float64) for r in replies) / count, c.dtype)
        for k, c in control.items()
    }
