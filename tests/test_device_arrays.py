"""What goes through one piece of memory comes out as it was."""

import numpy as np
import pytest
import torch

from fedsuite.arrays import device_tensors, host_arrays

TENSORS = {
    "weights": torch.randn(5, 3, generator=torch.Generator().manual_seed(1)),
    "turned": torch.arange(6.0).view(2, 3).T,
    "count": torch.tensor(7),
    "marks": torch.tensor([True, False, True]),
    "nothing": torch.zeros(0, 4),
    "double": torch.full((3,), 0.1, dtype=torch.float64),
}


@pytest.mark.parametrize("copies", [host_arrays, lambda t: host_arrays(t, piece=True)])
def test_tensors_become_arrays(copies):
    found = copies({**TENSORS, "learnt": torch.nn.Parameter(torch.ones(2))})
    assert list(found) == [*TENSORS, "learnt"]
    for name, tensor in TENSORS.items():
        assert torch.equal(torch.from_numpy(found[name]), tensor), name
        assert found[name].shape == tuple(tensor.shape)
    before = TENSORS["weights"].clone()
    found["weights"] += 1.0
    assert torch.equal(TENSORS["weights"], before)


@pytest.mark.parametrize(
    "copies", [lambda a: device_tensors(a, "cpu"), lambda a: device_tensors(a, "cpu", piece=True)]
)
def test_arrays_become_tensors(copies):
    arrays = {name: t.numpy() for name, t in TENSORS.items()}
    arrays["fixed"] = np.arange(4, dtype=np.int32)[::2]
    arrays["fixed"].flags.writeable = False
    found = copies(arrays)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert np.array_equal(found[name].numpy(), array), name
        assert found[name].numpy().dtype == array.dtype
    found["weights"].zero_()
    assert arrays["weights"].any()


def test_pieces_of_no_bytes():
    assert host_arrays({}, piece=True) == {} and device_tensors({}, "cpu", piece=True) == {}
