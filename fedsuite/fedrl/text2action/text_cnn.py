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

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.functional import linear

from fedsuite.errors import InputError
from fedsuite.fedrl.actions import HEIGHTS
from fedsuite.fedrl.learning.networks import full_layer
from fedsuite.fedrl.text2action.row_types import row_types
from fedsuite.fedrl.text2action.text_weights import (
    BIAS,
    RowLayout,
    folded_filters,
    xavier_bound,
)
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
FEW_TYPES = 64  # below this, looking for the types of a batch costs more than computing all


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
        heights: tuple[int, ...] = HEIGHTS,
        tag_size: int = 50,
        num_actions: int = 2,
    ) -> None:
        """Weights are drawn from `generator` alone; `tag_size` is K_2."""
        super().__init__()
        if table.max_words < max(heights):
            raise InputError(
                f"world.max-words: expected at least {max(heights)}, the height of the highest filter, got {table.max_words}"
            )
        self.role, self.heights, self.filters, self.tag_size = role, heights, filters, tag_size
        self.max_words, self.num_tags = table.max_words, table.num_tags
        self.layout = RowLayout(
            word=table.word_vectors.shape[1] if role != "alpha" else 0,
            distance=tag_size if role != "alpha" and table.action_index is not None else 0,
            embedding=tag_size if role != "beta" else 0,
            tag=tag_size,
        )
        self._set_tables(table)
        self._set_columns()
        self._set_parameters(num_actions, generator)

    def _set_tables(self, table: TextTable) -> None:
        """Buffers that say what the texts are; `fixed` [N, C'] is the part of a type's row that is not trained."""
        rows = row_types(table, self.role, margin=max(self.heights))
        fixed = torch.from_numpy(table.word_vectors).float()[rows.words][:, : self.layout.word]
        if self.layout.distance:
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
        drawn = [folded_filters(self.layout, h, self.filters, generator) for h in self.heights]
        self.taps = nn.Parameter(torch.cat([taps for taps, _ in drawn]))
        self.tag_taps = nn.Parameter(torch.cat([tag_taps for _, tag_taps in drawn]))
        total = self.filters * len(self.heights)
        self.bias = nn.Parameter(torch.full((total,), BIAS))
        self.pos_embedding: nn.Parameter | None = None
        if self.layout.embedding:
            table = torch.empty(self.num_tags, self.layout.embedding)
            bound = xavier_bound(*table.shape)
            self.pos_embedding = nn.Parameter(table.uniform_(-bound, bound, generator=generator))
        self.hidden = full_layer(total, HIDDEN, generator)
        self.output = full_layer(HIDDEN, num_actions, generator)

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
        # Not torch.take: on a GPU its backward pass adds up in no fixed order.
        taken = responses.view(-1).index_select(0, entries.view(-1)).view_as(entries)
        return (taken + tags * self.tag_taps) @ self.sum_taps
