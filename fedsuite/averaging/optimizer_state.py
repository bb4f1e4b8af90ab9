"""The state of an optimizer as named arrays: what stays on a client's disk, or is handed on with a model.

Names are `<kind>.<parameter>`, such as `exp_avg.encoder.weight`. An optimizer that counts its steps once for all parameters,
in its group, has them under `step`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from fedsuite.arrays import Arrays, device_tensors, host_arrays

STEP = "step"


def optimizer_arrays(optimizer: torch.optim.Optimizer, names: Iterable[str]) -> Arrays:
    """Copies of all state; `names` of all parameters, in the optimizer's order.

    A parameter that was never updated has none yet; before the first step the answer of torch's optimizers is {}.
    """
    content = optimizer.state_dict()
    arrays = host_arrays(
        {
            f"{kind}.{name}": value
            for name, (position, _) in _places(optimizer, names).items()
            for kind, value in content["state"].get(position, {}).items()
            if isinstance(value, torch.Tensor)
        }
    )
    group = content["param_groups"][0]
    return {**arrays, STEP: np.array(group[STEP], np.int64)} if STEP in group else arrays


def load_optimizer_arrays(
    optimizer: torch.optim.Optimizer, names: Iterable[str], arrays: Mapping[str, np.ndarray]
) -> None:
    """Put the optimizer where it was when `optimizer_arrays` was called; its next step gives the same bytes."""
    places, content = _places(optimizer, names), optimizer.state_dict()
    state: dict[int, dict[str, torch.Tensor]] = {}
    given = {key: array for key, array in arrays.items() if key != STEP}
    if STEP in arrays:
        content["param_groups"][0][STEP] = int(arrays[STEP])
    for key, array in given.items():
        name = key.partition(".")[2]
        if name not in places:
            raise ValueError(f"{key}: no such parameter in the optimizer; it has {list(places)}")
        _, parameter = places[name]
        shape = tuple(parameter.shape) if array.ndim else ()
        if array.shape != shape:
            raise ValueError(f"{key}: expected shape {shape}, got {array.shape}")
    there = next((parameter.device for _, parameter in places.values()), "cpu")
    for key, value in device_tensors(given, there).items():
        kind, _, name = key.partition(".")
        state.setdefault(places[name][0], {})[kind] = value
    optimizer.load_state_dict({**content, "state": state})


def _places(optimizer: torch.optim.Optimizer, names: Iterable[str]) -> dict[str, tuple[int, Any]]:
    """Where in the optimizer each parameter stands, and the parameter."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    listed = list(dict.fromkeys(names))
    if len(listed) != len(parameters):
        raise ValueError(
            f"the optimizer has {len(parameters)} parameters, got {len(listed)} names: {listed}"
        )
    return dict(zip(listed, enumerate(parameters), strict=True))
