"""What a network steers on a silo's frames; the result does not depend on how the frames are cut into batches."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsuite.driving.data.frames import Frames
from fedsuite.driving.model.layers import channels_last
from fedsuite.driving.model.networks import Output


def predict(
    network: torch.nn.Module, tensors: Mapping[str, Tensor], frames: Frames, batch_size: int, device: str
) -> np.ndarray:  # fmt: skip
    """Angles [n] float32 that `network` with the state `tensors` steers on frames, without dropout."""
    network.eval()
    angles = []
    with torch.no_grad():
        for begin in range(0, len(frames), batch_size):
            rows = np.array(frames.images[begin : begin + batch_size])
            images = channels_last(torch.from_numpy(rows).to(device).float())
            output: Output = torch.func.functional_call(network, dict(tensors), (images,))
            angles.append(output.predictions.cpu().numpy())
    return np.concatenate(angles)
