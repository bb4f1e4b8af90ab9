"""The Q-network of Text2Action, with the outputs and gradients of the published network at a fraction of the work.

Network (Zhuo et al. 2019, section 5.2; sizes of the published code): N_w rows per text, each a word's features and its tag,
zero-padded; four convolutions over the full width, of heights 2, 3, 4, 5, without padding, 32 filters each; ReLU;
maximum over positions -> 128; fully connected 128, ReLU; fully connected A.
Row of alpha: embedding of the part of speech (K_2 = 50, trainable, PAD included) | tag; of beta: word vector (D = 50) |
distance to the action (arguments only) | tag; of full: word vector | distance | embedding | tag. Tag (0, 1, 2) and
distance (words) are repeated K_2 times.

What is done differently, none of it visible from outside:
- Folding. The K_2 weights that meet equal components only ever act by their sum, so they are one weight, their mean,
  that meets K_2 times the component. It starts as the mean of K_2 draws; its gradient is K_2 times that of each of the
  unfolded weights, and Adam does not notice the factor (up to its eps).
- Cropping. Rows beyond a text are all alike, hence so are windows of them: one is enough.
- Tables. Rows repeat, so responses of filter taps are computed once per distinct row of the batch.
- Sparse gradients. Only the window with the maximum gets a gradient: it is searched without gradients, then its
  response is computed again with them. Ties go to the first window; equal windows give equal gradients anyhow.
ReLU and bias come after the maximum, with which both commute.

Letters: B records, L words of the longest sample, N distinct rows (row_types), F filters of each height, C components
of a row, A actions, K = F times the sum of heights: columns ordered by height, tap within the window, filter.
"""

import math
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import linear

from fedsuite.errors import InputError
from fedsuite.fedrl.text2action.row_types import row_types
from fedsuite.fedrl.text2action.views import TextTable
from fedsuite.fedrl.text2action.window_search import (
    first_best,
    groups,
    num_windows,
    response_table,
    tag_patterns,
    window_responses,
)
from fedsuite.fedrl.worlds import Role

HIDDEN = 128
BIAS = 0.1
SPREAD = 0.1  # standard deviation of fully connected weights, cut at two of them
FEW_TYPES = 64  # below this, looking for the types of a batch costs more than computing all


def xavier_bound(fan_in: int, fan_out: int) -> float:
    """Glorot and Bengio's bound of uniform weights."""
    return math.sqrt(6 / (fan_in + fan_out))


class TextCNN(nn.Module):
    """Q-values [B, A] of sample rows int64 [B] and tags uint8 [B, L], the inputs that TextView makes.

    Parameters: taps [K, C] and tag_taps [K] (the convolutions, folded), bias [4 F], pos_embedding
    [parts of speech, K_2] (alpha, full), hidden, output. The texts are buffers outside of the state dict.
    """

    lengths: torch.Tensor
    types: torch.Tensor
    fixed: torch.Tensor
    type_tags: torch.Tensor
    column_filter: torch.Tensor
    column_tap: torch.Tensor
    sum_taps: torch.Tensor

    def __init__(
        self,
        table: TextTable,
        role: Role,
        generator: torch.Generator,
        filters: int = 32,
        heights: tuple[int, ...] = (2, 3, 4, 5),
        tag_size: int = 50,
        num_actions: int = 2,
    ) -> None:
        """Weights are drawn from `generator` alone; `tag_size` is K_2."""
        super().__init__()
        if role == "gamma":
            raise ValueError("Text2Action has the roles alpha, beta and full, got gamma")
        if table.max_words < max(heights):
            raise InputError(
                f"max-words: expected at least {max(heights)}, the height of the highest filter, got {table.max_words}"
            )
        self.role, self.heights, self.filters, self.tag_size = role, heights, filters, tag_size
        self.max_words, self.num_tags = table.max_words, table.num_tags
        self._word_size = table.word_vectors.shape[1] if role != "alpha" else 0
        self._has_distance = role != "alpha" and table.action_index is not None
        self._set_tables(table)
        self._set_columns()
        self._set_parameters(num_actions, generator)

    def _set_tables(self, table: TextTable) -> None:
        """Buffers that say what the texts are; `fixed` [N, C'] is the part of a type's row that is not trained."""
        rows = row_types(table, self.role, margin=max(self.heights))
        fixed = torch.from_numpy(table.word_vectors).float()[rows.words][:, : self._word_size]
        if self._has_distance:
            distance = torch.from_numpy(rows.distances).float() * self.tag_size
            fixed = torch.cat([fixed, distance.unsqueeze(1)], 1)
        for name, values in (
            ("lengths", torch.from_numpy(table.lengths)),
            ("types", torch.from_numpy(rows.types)),
            ("type_tags", torch.from_numpy(rows.tags)),
            ("fixed", fixed),
        ):
            self.register_buffer(name, values.clone(), persistent=False)

    def _set_columns(self) -> None:
        """Buffers that say which filter and tap a column of the responses is, and the matrix that sums taps."""
        of_filter, of_tap, self._columns, start = [], [], [], 0
        for i, height in enumerate(self.heights):
            of_filter += [i * self.filters + f for _ in range(height) for f in range(self.filters)]
            of_tap += [tap for tap in range(height) for _ in range(self.filters)]
            self._columns.append(slice(start, len(of_tap)))
            start = len(of_tap)
            self.register_buffer(f"patterns{height}", tag_patterns(height), persistent=False)
        which = torch.tensor(of_filter)
        self.register_buffer("column_filter", which, persistent=False)
        self.register_buffer("column_tap", torch.tensor(of_tap), persistent=False)
        total = self.filters * len(self.heights)
        self.register_buffer("sum_taps", torch.eye(total)[which], persistent=False)

    def _set_parameters(self, num_actions: int, generator: torch.Generator) -> None:
        """Draw as the unfolded network would, height by height, and fold."""
        taps, tag_taps = zip(*(self._draw_filters(h, generator) for h in self.heights), strict=True)
        self.taps = nn.Parameter(torch.cat(taps))
        self.tag_taps = nn.Parameter(torch.cat(tag_taps))
        total = self.filters * len(self.heights)
        self.bias = nn.Parameter(torch.full((total,), BIAS))
        self.pos_embedding: nn.Parameter | None = None
        if self.role != "beta":
            bound = xavier_bound(self.num_tags, self.tag_size)
            embedding = torch.empty(self.num_tags, self.tag_size)
            self.pos_embedding = nn.Parameter(
                embedding.uniform_(-bound, bound, generator=generator)
            )
        self.hidden = self._draw_linear(total, HIDDEN, generator)
        self.output = self._draw_linear(HIDDEN, num_actions, generator)

    @property
    def width(self) -> int:
        """Components of an unfolded row."""
        repeated = 1 + self._has_distance + (self.role != "beta")
        return self._word_size + repeated * self.tag_size

    def _draw_filters(
        self, height: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Folded filters of one height: taps [h F, C] and tag taps [h F]."""
        window = height * self.width
        bound = xavier_bound(window, window * self.filters)
        drawn = torch.empty(height * self.filters, self.width)
        drawn.uniform_(-bound, bound, generator=generator)
        word, distance, embedding, tag = drawn.split(
            [
                self._word_size,
                self.tag_size if self._has_distance else 0,
                self.tag_size if self.role != "beta" else 0,
                self.tag_size,
            ],
            dim=1,
        )
        if self._has_distance:
            distance = distance.mean(1, keepdim=True)
        return torch.cat([word, distance, embedding], 1), tag.mean(1)

    @staticmethod
    def _draw_linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
        """A fully connected layer, truncated normal; nothing is drawn from torch's own generator."""
        layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
        nn.init.trunc_normal_(
            layer.weight, 0.0, SPREAD, -2 * SPREAD, 2 * SPREAD, generator=generator
        )
        nn.init.constant_(layer.bias, BIAS)
        return layer

    def unfolded_parameters(self) -> int:
        """Parameters of the published network, all K_2 equal components counted."""
        folded = self.taps.numel() + self.tag_taps.numel()
        return sum(p.numel() for p in self.parameters()) - folded + len(self.taps) * self.width

    def forward(self, rows: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        """Q-values [B, A]. Without gradients the windows' maxima are used as they are found."""
        if len(rows) == 0:
            return self.output.weight.new_zeros(0, len(self.output.bias))
        lengths, order = torch.sort(self.lengths[rows], stable=True)
        longest = int(lengths[-1])
        types = self.types[rows[order], : longest + max(self.heights)]
        decided = torch.zeros_like(types)
        decided[:, :longest] = tags[order, :longest]
        responses, types = self._responses(types)
        if torch.is_grad_enabled():
            best = self._at_best_windows(responses, types, decided, lengths.tolist())
        else:
            best = torch.cat(
                list(self._searched(responses, types, decided, lengths.tolist(), False))
            )
        # back into the order of the batch
        pooled = torch.empty_like(best).index_copy(0, order, torch.relu(best + self.bias))
        return self.output(torch.relu(self.hidden(pooled)))

    def _responses(self, types: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Responses of all taps [N, K] to the types that occur, and `types` renumbered to them.

        The part that is not trained and the embedding are multiplied apart: the first needs no gradient of its own,
        the second has few distinct rows.
        """
        fixed, tags = self.fixed, self.type_tags
        if len(fixed) > FEW_TYPES:
            occurs = torch.zeros(len(fixed), dtype=torch.bool, device=types.device)
            occurs[types.long().view(-1)] = True
            number = torch.cumsum(occurs, 0, dtype=torch.int32) - 1
            types = number[types.long()]
            fixed, tags = fixed[occurs], tags[occurs]
        size = fixed.shape[1]
        if self.pos_embedding is None:
            return linear(fixed, self.taps), types
        of_tags = linear(self.pos_embedding, self.taps[:, size:])
        responses = nn.functional.embedding(tags, of_tags)
        if size:
            responses.addmm_(fixed, self.taps[:, :size].t())
        return responses, types

    def _searched(
        self,
        responses: torch.Tensor,
        types: torch.Tensor,
        decided: torch.Tensor,
        lengths: list[int],
        where: bool,
    ) -> Iterator[torch.Tensor]:
        """Largest responses [b, 4 F] of each group of records, or, if `where`, the windows that have them."""
        tables = [
            response_table(
                responses, self.tag_taps * self.tag_size, self.get_buffer(f"patterns{h}"), c
            )
            for h, c in zip(self.heights, self._columns, strict=True)
        ]
        for first, last in groups(lengths):
            found = []
            for height, table in zip(self.heights, tables, strict=True):
                windows = num_windows(lengths[last - 1], height, self.max_words)
                of_windows = window_responses(
                    table, types[first:last], decided[first:last], height, windows
                )
                found.append(first_best(of_windows) if where else of_windows.amax(1))
            yield torch.cat(found, 1)

    def _at_best_windows(
        self,
        responses: torch.Tensor,
        types: torch.Tensor,
        decided: torch.Tensor,
        lengths: list[int],
    ) -> torch.Tensor:
        """Largest responses [B, 4 F], differentiable in `responses` and the tag taps."""
        with torch.no_grad():
            starts = torch.cat(
                list(self._searched(responses.detach(), types, decided, lengths, True))
            )
            cells = starts[:, self.column_filter] + self.column_tap
            columns = torch.arange(len(self.taps), device=cells.device)
            entries = types.gather(1, cells) * len(columns) + columns
            tags = decided.gather(1, cells) * float(self.tag_size)
        return (torch.take(responses, entries) + tags * self.tag_taps) @ self.sum_taps
