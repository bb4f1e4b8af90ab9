"""How many of torch's operators some work calls: on a GPU about as many kernels, for whose launching small work waits.

    with Counting() as operations:
        work()
    operations.number

Calls that only give another view of a tensor are left out, as are those that an operator makes by itself.
"""

from torch.utils._python_dispatch import TorchDispatchMode


class Counting(TorchDispatchMode):
    """number: operators called so far, forward and backward."""

    number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.number += not func.is_view
        return func(*args, **(kwargs or {}))
