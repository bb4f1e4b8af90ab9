"""How what is shared is told: arrays and numbers of a run's model, by module."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from fedsuite.arrays import Share
from fedsuite.reports.page.shared_arrays import shared_line


def test_arrays_are_counted_by_module(tmp_path: Path) -> None:
    arrays = {
        "encoder.lstm": np.zeros((2, 5)), "encoder.words": np.zeros(7), "decoder.out": np.zeros(3),
        "critic.a": np.zeros(100),
    }  # fmt: skip
    save_file(arrays, file := tmp_path / "model.safetensors")
    every = Share(("",))
    assert shared_line(file, "the agent", every) == (
        "the agent: 4 arrays, 120 numbers (critic 1, decoder 1, encoder 2)"
    )
    assert shared_line(file, "the agent", every, without="critic.") == (
        "the agent: 3 arrays, 20 numbers (decoder 1, encoder 2)"
    )
    assert shared_line(file, "words", Share(("encoder.",))) == "words: 2 arrays, 17 numbers"
    assert shared_line(tmp_path / "none", "the agent", every) == "the agent"
