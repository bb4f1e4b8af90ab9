"""Prompt-based aggregation: who is merged is decided by the prompts that clients learnt, not by their models.

Source: "Navigation as Attackers Wish?" (NAACL 2024), PBA. Beside its model every client learns a few vectors, the prompts,
which start from 0 in every round. With s_k the signs of client k's prompts, vector by vector,

  S_kl = sum over the vectors of cos(s_k, s_l)

and of the M clients that remain, N at first, the one with the largest sum of its M - 1 - f largest S, its own S_kk among
them, is taken and removed, while M > 2 f + 2. Delta is the mean of the N - 2 f - 2 that were taken, weighted by their
samples; the prompts go back to 0. Of equal sums the lower partition is taken.

Prompts are the arrays with `prompt.` in their names (fedsuite/vln/model/prompted.py). The release has this rule, but its
published setting never makes the prompts, so that it cannot run unchanged.
"""

from collections.abc import Sequence

import numpy as np

from fedsuite.arrays import Named
from fedsuite.averaging.merging import Merged, mean
from fedsuite.averaging.stored import picked
from fedsuite.errors import RunFailed

PROMPT = "prompt."


def is_prompt(name: str) -> bool:
    """Whether an array is one of the vectors by which clients are compared."""
    return PROMPT in name


def similarities(prompts: Sequence[np.ndarray]) -> np.ndarray:
    """S [N, N] of the changes of each prompt, [N, H] a vector; a change of 0 is like nobody's, not even its own."""
    total = np.zeros((len(prompts[0]), len(prompts[0])))
    for changes in prompts:
        signs = np.sign(changes)
        squared = np.maximum(np.abs(signs).sum(axis=1), 1.0)
        total += (signs @ signs.T) / np.sqrt(np.outer(squared, squared))  # of oneself exactly 1
    return total


def most_alike(similarity: np.ndarray, tolerated: int) -> list[int]:
    """Who is taken, in the order of taking."""
    left, taken = list(range(len(similarity))), []
    while len(left) > 2 * tolerated + 2:
        ordered = -np.sort(-similarity[np.ix_(left, left)], axis=1)
        sums = ordered[:, : len(left) - 1 - tolerated].sum(axis=1)
        best = left[int(np.argmax(sums))]
        taken.append(best)
        left.remove(best)
    return taken


def by_prompts(
    server: Named, clients: Sequence[Named], weights: np.ndarray, tolerated: int
) -> Merged:
    """The mean of those whose prompts are most alike."""
    names = sorted(name for name in clients[0] if is_prompt(name))
    if not names:
        raise RunFailed(
            "merge rule pba: the model has no arrays with `prompt.` in their names to compare clients by; give it some (of "
            "FedVLN: agent.decoder=prompted), or choose another federation.merge"
        )
    starts = {name: server[name].astype(np.float64) for name in names}
    changes = [np.array([(c[n] - starts[n]).ravel() for c in clients]) for n in names]
    taken = most_alike(similarities(changes), tolerated)
    chosen = np.zeros(len(clients))
    chosen[taken] = weights[taken] / weights[taken].sum()
    models = [picked(c, [n for n in c if not is_prompt(n)]) for c in clients]
    delta = mean(server, models, chosen) | {name: -start for name, start in starts.items()}
    return Merged(delta, np.minimum(1.0, chosen / weights))
