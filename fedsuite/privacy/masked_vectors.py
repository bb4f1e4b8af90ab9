"""Vectors of whole numbers modulo 2^32 whose sum alone can be read: rounding onto levels, and masks.

Symbols: N members of a sum; d_k a member's change, one number; c the largest |d_k| that is summed as it is; a_k in (0, 1]
its public weight; T = 2^(32 - b) levels, b the number of bits of N, so that N T < 2^32.

  q_k = round((a_k clip(d_k, -c, c) + c) T / (2 c))   in 0..T, the nearest level
  sum a_k d_k = 2 c / T sum q_k - N c                 each term is off by c / T at most

so that the weighted mean is off by c N / (T sum a_k) at most. How many numbers of a vector were clipped travels as its last
number, of which the sum alone can be read too.
"""

from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

WORD = np.dtype("<u4")


@dataclass(frozen=True)
class Levels:
    """bound: c; members: N."""

    bound: float
    members: int

    @property
    def steps(self) -> int:
        """T."""
        return 1 << (32 - self.members.bit_length())

    def rounded(
        self,
        change: np.ndarray,
        weight: float | np.ndarray,
        noise: np.random.Generator | None = None,
    ) -> np.ndarray:
        """A change [d] as d + 1 words: its levels, and how many of its numbers were clipped.

        weight: of all its numbers, or of each [d], 1 at most; noise: nothing is drawn.
        """
        clipped = np.clip(change.astype(np.float64), -self.bound, self.bound)
        levels = np.rint((weight * clipped + self.bound) * (self.steps / (2 * self.bound)))
        count = np.count_nonzero(np.abs(change) > self.bound)
        return np.append(levels, count).astype(WORD)

    def mean(self, total: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """The weighted mean change [d] float64 of those whose rounded changes add up to `total`, and how many numbers were
        clipped; ValueError for what is no such sum. weights: of these alone."""
        levels, count = total[:-1].astype(np.float64), int(total[-1])
        most = len(weights) * self.steps
        if (levels > most).any() or count > len(weights) * len(levels):
            raise ValueError(f"it holds numbers above {most}, the largest that such a sum can have")
        summed = levels * (2 * self.bound / self.steps) - len(weights) * self.bound
        return summed / weights.sum(), count


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key of 32 bytes for one purpose (HKDF: RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret)


def mask(secret: bytes, purpose: bytes, length: int) -> np.ndarray:
    """`length` words of AES-256 in counter mode, keyed for this purpose, which is never used twice with a secret."""
    stream = Cipher(AES(derived(secret, purpose)), CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(WORD.itemsize * length)), WORD)
