"""torch's own generators under DP-SGD: what masks a gradient, dropout above all, is drawn as secretly as batches and noise.

Masks hide nothing if they are known, but they must not tie one example to another. In a batch they are handed out by place:
known masks, of the run's seed say, go to other examples once one more comes before them, so that not one clipped gradient of
the sum changes but up to as many as the batch has, and the sensitivity is no longer C. Masks that nobody knows are the same
in distribution for every example, whoever else is in the batch: compare two batches with equal masks for equal examples, and
the sum moves by C at most (the divergences of Gaussians are jointly quasi-convex in the mixture over masks).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_WORDS = 624  # of the Mersenne Twister, of 32 bits each
_AT = 24  # bytes before them in the state of torch's generator on a CPU, which gives each 64 bits


@contextmanager
def draws_of(rng: np.random.Generator, device: torch.device) -> Iterator[None]:
    """Inside the block all that torch draws without a generator of its own follows from `rng`; then it is put back.

    torch's seeds on a CPU count 32 bits only, which can be tried out, so that the whole state is drawn. A GPU's (Philox)
    has 64 bits of a seed.
    """
    gpus = [device] if device.type == "cuda" else []
    words = rng.integers(2**32, size=_WORDS, dtype=np.uint64)
    seed = int(rng.integers(2**63))
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(0)  # its words are used up, no half of a pair is left
        state = torch.default_generator.get_state()
        state[_AT : _AT + 8 * _WORDS] = torch.from_numpy(words.view(np.uint8))
        torch.default_generator.set_state(state)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield
