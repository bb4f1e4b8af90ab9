"""Arrays packed into one block: all that is in them comes back, in its order, and nothing else is taken for a block."""

import numpy as np
import pytest

from fedsuite.messages.packing import pack, unpack

ARRAYS = {
    "z.weight": np.arange(6, dtype=np.float32).reshape(2, 3).T,  # not in C order
    "a": np.array(2.5),
    "n": np.array([2**62, -1]),
    "mask": np.array([[True, False]]),
    "half": np.array([np.nan, -0.0], np.float16),
    "none": np.zeros((0, 3), np.float32),
    "name with a\nbreak": np.zeros(1, np.uint8),
}


def test_arrays_come_back_as_they_were() -> None:
    block = pack(ARRAYS)
    assert block == pack(ARRAYS) and unpack(pack({})) == {}
    found = unpack(block)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable and found[name].flags.aligned


@pytest.mark.parametrize("sign", ["a", "ü", '"', "\\", "\x01", "\U0001f600"])
@pytest.mark.parametrize("dimensions", [0, 1, 32])
def test_names_and_shapes_that_take_much_room_fit_into_what_a_header_may_be(
    sign: str, dimensions: int
) -> None:
    """Where it is known what must come, so that longer headers are not read."""
    arrays = {
        f"{i}{sign * 500}": np.zeros((1,) * (dimensions - 1) + (0,) * bool(dimensions), np.float32)
        for i in range(40)
    }
    expected = {name: (array.shape, "float32") for name, array in arrays.items()}
    assert list(unpack(pack(arrays), expected)) == list(arrays)


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([1j]), np.array([{}])])
def test_what_is_no_number_is_refused_where_it_is_sent(array: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"array w has type (<U4|complex128|object)"):
        pack({"v": np.zeros(1), "w": array})


@pytest.mark.parametrize(
    "block", [b"", b"{}", pack(ARRAYS)[:-1], pack(ARRAYS) + b"0", bytes(range(256))]
)
def test_other_bytes_are_refused_in_one_line(block: bytes) -> None:
    with pytest.raises(ValueError, match="expected arrays packed as safetensors") as refused:
        unpack(block)
    assert "\n" not in str(refused.value)


def test_every_array_has_one_place_in_the_order() -> None:
    block = pack({"first": np.zeros(1), "other": np.ones(1)})
    quoted = rb"[\"first\", \"other\"]"
    assert quoted in block
    for order in (
        rb"[\"first\"          ]",
        rb"[\"first\", \"first\"]",
        rb"[\"first\", \"third\"]",
    ):
        with pytest.raises(ValueError, match="expected arrays packed"):
            unpack(block.replace(quoted, order))
