"""The only source of randomness: one independent stream per (seed, purpose, round, partition).

A stream does not depend on which process draws from it, nor on what was drawn before, so a run gives the
same bytes with any number of workers and after a restart at any round.
"""

import hashlib

import numpy as np
import torch


def rng_for(seed: int, purpose: str, round: int = 0, partition: int = 0) -> np.random.Generator:
    """NumPy generator of the stream; the purpose enters by its SHA-256, so similar names do not collide."""
    if seed < 0 or round < 0 or partition < 0:
        raise ValueError(
            f"seed, round and partition must be >= 0, got {seed}, {round}, {partition}"
        )
    digest = hashlib.sha256(purpose.encode()).digest()
    words = [seed, int.from_bytes(digest[:8], "little"), round, partition]
    return np.random.default_rng(np.random.SeedSequence(words))


def torch_generator_for(
    seed: int, purpose: str, round: int = 0, partition: int = 0, device: str = "cpu"
) -> torch.Generator:
    """Torch generator seeded from the stream."""
    state = int(rng_for(seed, purpose, round, partition).integers(2**63))
    return torch.Generator(device=device).manual_seed(state)
