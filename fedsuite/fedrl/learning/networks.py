"""Q-networks of Grid-World and the shared MLP of a federation (Zhuo et al. 2019; the published code).

  Q(s) = W_o relu(W_h concat_i flatten(relu(conv_i(w_i))) + b_h) + b_o
  Q_f  = MLP(concat(Q_alpha, Q_beta, ...)), hidden layer twice as wide as there are actions (the paper's "32 x 4": 32)

w_i: window [B, H, s_i, s_i] of 0 and 1, newest observation last; A actions; F filters; N parties. One window is a party's
own network, two are DQN-full. Weights are drawn as in the published code: Xavier-uniform filters,
normal(0, 0.1) cut at two standard deviations elsewhere, biases 0.1. The shared MLP starts as a sum of its parts,
or as drawn.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.randomness import torch_generator_for

HIDDEN = 256  # of networks that see windows
POSITION_HIDDEN = 64
PATCH_NUMBERS = 1 << 20  # patches that are held at once, numbers; larger batches go in pieces
SMALLEST_PIECE = 32  # records


class WindowConvolution(nn.Module):
    """ReLU of a convolution over a small window, zero-padded to the window's size: [B, H, s, s] -> [B, s * s * F].

    The patches are gathered by one table of indices and multiplied in one product, which over 3x3 and 5x5
    windows takes less time than a general convolution. Outputs run over positions first, then over filters.
    """

    patches: Tensor

    def __init__(
        self, side: int, history: int, filters: int, kernel: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(filters, history, kernel, kernel))
        self.bias = nn.Parameter(torch.full((filters,), 0.1))
        nn.init.xavier_uniform_(self.weight, generator=generator)
        self.shape = (history, side, side)
        self.num_outputs = filters * side * side
        # Not a part of the model's state: it follows from the sizes.
        self.register_buffer("patches", _patch_table(side, history, kernel), persistent=False)

    def forward(self, window: Tensor) -> Tensor:
        if window.shape[1:] != self.shape:
            raise ValueError(
                f"expected windows [B, {', '.join(map(str, self.shape))}], got {list(window.shape)}"
            )
        piece = max(SMALLEST_PIECE, PATCH_NUMBERS // len(self.patches))
        if len(window) <= piece:
            return self._convolve(window)
        return torch.cat([self._convolve(part) for part in window.split(piece)])

    def _convolve(self, window: Tensor) -> Tensor:
        weight = self.weight.flatten(1)
        padded = functional.pad(window.flatten(1), (0, 1))  # the last column is the zero of the rim
        patches = padded.index_select(1, self.patches).view(-1, weight.shape[1])
        maps = functional.relu(torch.addmm(self.bias, patches, weight.t()))
        return maps.view(len(window), self.num_outputs)


def _patch_table(side: int, history: int, kernel: int) -> Tensor:
    """Index of every number of every patch in a flattened window [s * s * H * k * k]; H * s * s stands for the rim."""
    rim, reach = history * side * side, kernel // 2
    cells = torch.arange(rim).view(history, side, side)
    framed = functional.pad(cells, (reach,) * 4, value=rim)
    patches = framed.unfold(1, kernel, 1).unfold(2, kernel, 1)  # [H, s, s, k, k]
    return patches.permute(1, 2, 0, 3, 4).flatten()


class WindowNetwork(nn.Module):
    """Convolutions side by side, one for each window, then two full layers: [B, H, s_i, s_i], ... -> [B, A].

    kernels "window": filters as large as the window, "3x3": of side 3.
    """

    def __init__(
        self,
        sides: Sequence[int],
        history: int,
        filters: int,
        kernels: str,
        num_actions: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            WindowConvolution(side, history, filters, side if kernels == "window" else 3, generator)
            for side in sides
        )
        self.hidden = full_layer(filters * sum(s * s for s in sides), HIDDEN, generator)
        self.output = full_layer(HIDDEN, num_actions, generator)

    def forward(self, *windows: Tensor) -> Tensor:
        seen = [c(w) for c, w in zip(self.convolutions, windows, strict=True)]
        q: Tensor = self.output(functional.relu(self.hidden(torch.cat(seen, 1))))
        return q


class TwoLayers(nn.Module):
    """Full layer, ReLU, full layer: parts [..., n_i] that sum to num_inputs, side by side -> [..., A]."""

    def __init__(
        self, num_inputs: int, hidden: int, num_actions: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.hidden = full_layer(num_inputs, hidden, generator)
        self.output = full_layer(hidden, num_actions, generator)

    def forward(self, *parts: Tensor) -> Tensor:
        q: Tensor = self.output(functional.relu(self.hidden(torch.cat(parts, -1))))
        return q


def start_as_drawn(mlp: TwoLayers) -> None:
    """The published code's start: the drawn weights as they are."""


def start_as_sum(mlp: TwoLayers) -> None:
    """Q_f(a) = sum_i Q_i(a), since relu(z) - relu(-z) = z; needs two hidden units for each action.

    Further units keep what was drawn and are not listened to yet: they have no say, but a gradient once they get one.
    """
    actions = mlp.output.out_features
    parties, pairs = mlp.hidden.in_features // actions, 2 * actions
    one = torch.eye(actions)
    with torch.no_grad():
        mlp.hidden.weight[:pairs] = torch.cat([one, -one]).repeat(1, parties)
        mlp.hidden.bias[:pairs] = 0
        mlp.output.weight.zero_()
        mlp.output.weight[:, :pairs] = torch.cat([one, -one], 1)
        mlp.output.bias.zero_()


MLP_STARTS: Mapping[str, Callable[[TwoLayers], None]] = {
    "sum": start_as_sum,
    "published": start_as_drawn,
}


def new_mlp(config: FedRLConfig, num_actions: int, purpose: str) -> TwoLayers:
    """The shared MLP of Q-values, a part a party, as every party and the server start it ("mlp"), or another draw of it."""
    generator = torch_generator_for(config.seed, purpose)
    hidden = config.network.mlp_hidden or 2 * num_actions
    mlp = TwoLayers(len(config.federation.roles) * num_actions, hidden, num_actions, generator)
    MLP_STARTS[config.published.rules.mlp_start](mlp)
    return mlp


def full_layer(num_inputs: int, num_outputs: int, generator: torch.Generator) -> nn.Linear:
    """A fully connected layer with the published code's first weights."""
    # nn.Linear would draw its weights from torch's global generator first.
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, num_inputs, num_outputs)
    nn.init.trunc_normal_(layer.weight, 0.0, 0.1, -0.2, 0.2, generator=generator)
    nn.init.constant_(layer.bias, 0.1)
    return layer
