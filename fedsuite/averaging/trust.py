"""FLTrust: changes are believed as far as they point where a trusted client's does.

Source: Cao et al. 2021, 2012.13995, Algorithm 2.

Of N clients one, o, is trusted, because its data are public or the server's own. With d_k = w_k - w

  t_k   = max(0, cos(d_k, d_o))                                    trust score; of a change of 0 it is 0
  Delta = sum_k t_k (||d_o|| / ||d_k||) d_k  /  sum_k t_k          every change as long as the trusted one

The trusted client is one of the k, with t = 1. In the paper the server trains itself and does not add its own change; here
it is one of the federation's clients. Nobody's number of samples counts. Where the trusted change is 0, Delta is 0.
"""

from collections.abc import Sequence

import numpy as np

from fedsuite.arrays import Named
from fedsuite.averaging.distances import along, lengths
from fedsuite.averaging.merging import Merged, mean
from fedsuite.averaging.step import Step
from fedsuite.errors import RunFailed

TRUSTING = "fltrust"


def trusting(
    server: Named, clients: Sequence[Named], weights: np.ndarray, tolerated: int, step: Step
) -> Merged:
    """The merge of these clients; step.trusted is the place of the trusted one among them."""
    if step.trusted is None:
        raise RunFailed(
            f"round {step.round}: merge rule fltrust: the client of federation.trusted sent no change, so no other can be "
            "judged; see to that client, and resume the run"
        )
    own = lengths(server, clients)
    length = own[step.trusted]
    there = own > 0
    products = along(server, clients, clients[step.trusted])
    trust = np.zeros(len(clients))
    trust[there] = np.maximum(
        0.0, products[there] / (own[there] * max(length, np.finfo(float).tiny))
    )
    total = trust.sum()
    if not total:
        return Merged(mean(server, clients, trust), trust)
    factors = np.zeros(len(clients))
    factors[there] = trust[there] * length / own[there] / total
    return Merged(mean(server, clients, factors), np.minimum(1.0, trust / total / weights))
