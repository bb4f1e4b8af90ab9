"""The speaker: reads a path and writes the instruction for it.

Source: EnvDrop (Tan et al. 2019) as used by FedVLN (Zhou & Wang 2022). Symbols: B paths, T places, L tokens, V = 36 views or
vocabulary, F visual width, A angle width, F' = F + A, H hidden size, D dropout.

  h = D biLSTM(actions),  a_t = tanh(W_out [sum_v w_tv view_tv ; h_t]),  w_t = softmax(views_t W_in h_t)
  c = D biLSTM(D a), the context
  g = D LSTM(D embedded words) from zeros,  logits_l = W D tanh(U_out [sum_t u_lt c_t ; g_l]) + b,  u_l = softmax(c U_in g_l)

Both biLSTMs end where a path ends. The official code runs them over the padding of a batch as well, so that there the
context of a short path depends on the longest path beside it; here it does not. Angle features are not built at width A
for the views, see `agent`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from fedsuite.vln.data.instructions import PAD
from fedsuite.vln.model.agent import Sizes
from fedsuite.vln.model.attention import SoftDotAttention, dot_scores
from fedsuite.vln.model.dropout import Dropout

BASELINE_WIDTH = 128
SpeakerSizes = Sizes


@dataclass(frozen=True)
class PathViews:
    """B paths, freshly gathered.

    views [B, T, 36, F], view_angle [B, T, 36, 4] relative to the camera; action [B, T, F], action_angle [B, T, 4]: the
    candidate that leads to the next place, zeros at the stop and beyond; length [B] int64 on the CPU, places of each
    path. Beyond a path's end, views repeat its last place.
    """

    views: Tensor
    view_angle: Tensor
    action: Tensor
    action_angle: Tensor
    length: Tensor


@dataclass(frozen=True)
class PathContext:
    """What the decoder reads: context [B, T, H] and its padding [B, T], True beyond a path's end."""

    context: Tensor
    padding: Tensor

    def rows(self, index: Tensor) -> "PathContext":
        """The rows [b] of the batch; a row may be asked for more than once."""
        return PathContext(self.context[index], self.padding[index])


class PathEncoder(nn.Module):
    """Path -> context."""

    def __init__(self, sizes: SpeakerSizes) -> None:
        super().__init__()
        self.repeats = sizes.angle // 4
        width, hidden = sizes.feature + sizes.angle, sizes.hidden
        self.lstm = nn.LSTM(width, hidden // 2, batch_first=True, bidirectional=True)
        self.attention = SoftDotAttention(hidden, width, output=True)
        self.post_lstm = nn.LSTM(hidden, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, path: PathViews, dropout: Dropout) -> PathContext:
        """Visual features are dropped out before, see `path_views.drop_features`."""
        actions = torch.cat([path.action, path.action_angle.repeat(1, 1, self.repeats)], 2)
        moves = dropout(_two_way(self.lstm, actions, path.length))
        seen = dropout(self._look(moves, path))
        context = dropout(_two_way(self.post_lstm, seen, path.length))
        places = torch.arange(context.shape[1]) >= path.length.unsqueeze(1)
        return PathContext(context, places.to(context.device))

    def _look(self, moves: Tensor, path: PathViews) -> Tensor:
        """Attention of each move [B, T, H] over the 36 views of its place -> [B, T, H]."""
        query = self.attention.query(moves).flatten(0, 1)
        views, angles = path.views.flatten(0, 1), path.view_angle.flatten(0, 1)
        weight = torch.softmax(dot_scores(query, views, angles), 1).unsqueeze(1)
        visual = torch.bmm(weight, views).squeeze(1)
        angle = torch.bmm(weight, angles).squeeze(1).repeat(1, self.repeats)
        both = torch.cat([visual, angle, moves.flatten(0, 1)], 1)
        return torch.tanh(self.attention.output(both)).unflatten(0, moves.shape[:2])


def _two_way(lstm: nn.LSTM, x: Tensor, length: Tensor) -> Tensor:
    """x [B, T, I] -> [B, T, H], zeros beyond each row's length."""
    packed = pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


class WordDecoder(nn.Module):
    """Context and the words so far -> logits of the next word."""

    def __init__(self, sizes: SpeakerSizes) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.word, padding_idx=PAD)
        self.lstm = nn.LSTM(sizes.word, sizes.hidden, batch_first=True)
        self.attention = SoftDotAttention(sizes.hidden, sizes.hidden, output=True)
        self.to_words = nn.Linear(sizes.hidden, sizes.vocabulary)
        if sizes.dead_layers:
            self.baseline = nn.Sequential(
                nn.Linear(sizes.hidden, BASELINE_WIDTH), nn.ReLU(), nn.Linear(BASELINE_WIDTH, 1)
            )

    def forward(self, tokens: Tensor, path: PathContext, dropout: Dropout) -> Tensor:
        """tokens [B, L] -> g [B, L, H], then what was read at each of them [B, L, H], dropped out."""
        hidden = dropout(self.lstm(dropout(self.embedding(tokens)))[0])
        return dropout(self.read(hidden, path))

    def read(self, hidden: Tensor, path: PathContext) -> Tensor:
        """Attention of each word [B, L, H] over the places of its path; tanh(U_out [context ; g])."""
        scores = torch.bmm(self.attention.query(hidden), path.context.mT)
        scores = scores.masked_fill(path.padding.unsqueeze(1), float("-inf"))
        mixed = torch.bmm(torch.softmax(scores, 2), path.context)
        return torch.tanh(self.attention.output(torch.cat([mixed, hidden], 2)))


class Speaker(nn.Module):
    """Both modules; array names start with `encoder.` and `decoder.`."""

    def __init__(self, sizes: SpeakerSizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = PathEncoder(sizes)
        self.decoder = WordDecoder(sizes)

    def forward(self, path: PathViews, tokens: Tensor, dropout: Dropout) -> tuple[Tensor, Tensor]:
        """Teacher-forced on the paths' views, see `forced`."""
        return self.forced(self.encoder(path, dropout), tokens, dropout)

    def forced(self, path: PathContext, tokens: Tensor, dropout: Dropout) -> tuple[Tensor, Tensor]:
        """Logits [M, V], targets [M] of all tokens after BOS but PAD, row by row; tokens [B, L] int64 with BOS."""
        read = self.decoder(tokens[:, :-1], path, dropout)
        target = tokens[:, 1:]
        index = (target != PAD).flatten().nonzero().squeeze(1)
        logits = self.decoder.to_words(read.flatten(0, 1).index_select(0, index))
        return logits, target.flatten().index_select(0, index)


def build_speaker(sizes: SpeakerSizes, seed: int) -> Speaker:
    """A freshly initialised speaker that depends on the seed alone and leaves the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Speaker(sizes)
