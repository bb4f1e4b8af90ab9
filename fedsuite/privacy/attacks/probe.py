"""What one released vector tells of the picture behind it: a probe that learns to read binary cells off it.

Whoever gets noised Q-vectors, and knows the cells behind some of them, trains a perceptron on these pairs and reads the
others (attribute inference; probes: Alain & Bengio 2017, 1610.01644):

    p = sigmoid(W_3 relu(W_2 relu(W_1 x + b_1) + b_2) + b_3)      x [A] standardised vector, p [C] of the cells, 128 units
                                                                   in both hidden layers

trained with Adam on the cross-entropy, and kept as it was where that was least on a fifth of the attacker's own groups, on
which it is not trained (Prechelt 1998). Cells that are the same everywhere tell nothing and are left out of the AUC.
Chance is the majority: every cell's commoner value among the pairs that the attacker has.
Means of n releases of the same Q-vector have noise of sigma / sqrt(n): resends undo noise.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsuite.privacy.attacks.clustered import Estimate, mean_auc, mean_of
from fedsuite.randomness import rng_for, torch_generator_for

WIDTH, BATCH, RATE = 128, 256, 1e-3
STEPS, CHECK_EVERY = 4000, 250
HELD_BACK = 0.2  # of the attacker's groups, to tell when to stop


@dataclass(frozen=True, eq=False)
class Seen:
    """Releases x [n, A] float32, the cells behind them [n, C] of 0 and 1, and what they hang together by, groups [n]."""

    releases: np.ndarray
    cells: np.ndarray
    groups: np.ndarray

    def __post_init__(self) -> None:
        if not len(self.releases) == len(self.cells) == len(self.groups):
            raise ValueError(
                f"expected as many releases as cells and groups, got {len(self.releases)}, {len(self.cells)} and "
                f"{len(self.groups)}"
            )

    def __len__(self) -> int:
        return len(self.releases)

    def part(self, chosen: np.ndarray) -> "Seen":
        return Seen(self.releases[chosen], self.cells[chosen], self.groups[chosen])


@dataclass(frozen=True)
class Reading:
    """accuracy: share of cells read right; auc: mean over the cells; majority: the share that the commoner values reach; n:
    vectors that were read. Intervals are over groups."""

    accuracy: Estimate
    auc: Estimate
    majority: float
    n: int


def split_by_group(seen: Seen, seed: int, share: float = 0.5) -> tuple[Seen, Seen]:
    """Whole groups on either side: pairs that the attacker has (about `share` of the groups), and unseen ones."""
    names = np.unique(seen.groups)
    if len(names) < 2:
        raise ValueError("expected at least two groups to split")
    order = rng_for(seed, "probe groups").permutation(len(names))
    known = names[order[: max(1, min(len(names) - 1, round(share * len(names))))]]
    mine = np.isin(seen.groups, known)
    return seen.part(mine), seen.part(~mine)


def read_cells(known: Seen, unseen: Seen, seed: int, steps: int = STEPS) -> Reading:
    """Train a probe on what the attacker knows, and score it on what it has not seen. steps: at most."""
    mean, std = known.releases.mean(0), known.releases.std(0)
    probe = _probe(known.releases.shape[1], known.cells.shape[1], seed)

    def tensors(seen: Seen) -> tuple[Tensor, Tensor]:
        x = (seen.releases - mean) / np.maximum(std, 1e-12)
        return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(
            seen.cells.astype(np.float32)
        )

    held, own = split_by_group(known, seed, HELD_BACK)
    _train(probe, tensors(own), tensors(held), rng_for(seed, "probe batches"), steps)
    with torch.no_grad():
        logits = probe(tensors(unseen)[0]).numpy()
    return reading(logits, known, unseen)


def _train(
    probe: nn.Sequential, own: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor],
    rng: np.random.Generator, steps: int,
) -> None:  # fmt: skip
    """Leaves the probe as it was where its loss on `held` was least."""
    (x, y), best, lowest = own, probe.state_dict(), float("inf")
    optimizer = torch.optim.Adam(probe.parameters(), RATE)
    for step in range(1, steps + 1):
        rows = torch.from_numpy(rng.integers(len(x), size=BATCH))
        loss = F.binary_cross_entropy_with_logits(probe(x[rows]), y[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % CHECK_EVERY == 0 or step == steps:
            with torch.no_grad():
                reached = float(F.binary_cross_entropy_with_logits(probe(held[0]), held[1]))
            if reached < lowest:
                lowest = reached
                best = {k: v.clone() for k, v in probe.state_dict().items()}
    probe.load_state_dict(best)


def reading(logits: np.ndarray, known: Seen, unseen: Seen) -> Reading:
    """Scores of logits [n, C] for the unseen cells."""
    truth = unseen.cells > 0.5
    right = ((logits > 0) == truth).mean(axis=1)
    commoner = known.cells.mean(axis=0) > 0.5
    return Reading(
        accuracy=mean_of(right, unseen.groups),
        auc=mean_auc(logits, truth, unseen.groups),
        majority=float((commoner == truth).mean()),
        n=len(unseen),
    )


def _probe(inputs: int, cells: int, seed: int) -> nn.Sequential:
    generator = torch_generator_for(seed, "probe")
    layers: list[nn.Module] = []
    for wide, out in ((inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, cells)):
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, wide, out)
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
