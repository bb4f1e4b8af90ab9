"""Secret sharing: any t of the shares give a secret back, fewer tell nothing of it.

Shamir 1979, How to share a secret. Over the field of the integers modulo p = 2^521 - 1, a prime, a polynomial f of degree
t - 1 has the secret as f(0) and uniform coefficients above; the share of x is f(x). Secrets have at most 64 bytes.
"""

import secrets
from collections.abc import Mapping, Sequence

PRIME = 2**521 - 1
SHARE_BYTES = 66


def split(secret: bytes, threshold: int, places: Sequence[int]) -> dict[int, bytes]:
    """A share for each place x >= 1, of SHARE_BYTES bytes; `threshold` of them give the secret back."""
    if not 1 <= threshold <= len(set(places)) == len(places) or min(places) < 1 or len(secret) > 64:
        raise ValueError(
            "expected distinct places >= 1, a threshold of at most their number, 64 bytes at most"
        )
    above = [secrets.randbelow(PRIME) for _ in range(threshold - 1)]
    coefficients = [int.from_bytes(secret, "big"), *above]

    def share(x: int) -> bytes:
        value = 0
        for coefficient in reversed(coefficients):  # Horner
            value = (value * x + coefficient) % PRIME
        return value.to_bytes(SHARE_BYTES, "big")

    return {x: share(x) for x in places}


def combine(shares: Mapping[int, bytes], length: int) -> bytes:
    """The secret of `length` bytes, from as many shares by place as its threshold; ValueError if they stand for none.

    f(0) = sum_i f(x_i) prod_{j != i} x_j / (x_j - x_i), Lagrange's interpolation at 0.
    """
    total = 0
    for x, share in shares.items():
        above = below = 1
        for other in shares:
            if other != x:
                above, below = above * other % PRIME, below * (other - x) % PRIME
        total += int.from_bytes(share, "big") * above * pow(below, -1, PRIME)
    try:
        return (total % PRIME).to_bytes(length, "big")
    except OverflowError:
        raise ValueError("the shares do not belong together") from None
