"""Networks with the names and the saving of the public EnvDrop code, written from their description.

R2R-EnvDrop (Tan et al. 2019): EncoderLSTM, AttnDecoderLSTM, Critic of an agent; SpeakerEncoder, SpeakerDecoder of a speaker.
Everything at full feature width F' = F + A, without dropout, as in evaluation; the stop vector is the last candidate.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class SoftDotAttention(nn.Module):
    """query [B, Q], rows [B, N, C]: weights, their mean of the rows, tanh of mean and query through linear_out."""

    def __init__(self, query: int, rows: int) -> None:
        super().__init__()
        self.linear_in = nn.Linear(query, rows, bias=False)
        self.linear_out = nn.Linear(query + rows, query, bias=False)

    def forward(
        self, query: Tensor, rows: Tensor, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Raw scores [B, N], mean [B, C], output [B, Q]."""
        scores = torch.einsum("bnc,bc->bn", rows, self.linear_in(query))
        if padding is not None:
            scores = scores.masked_fill(padding, -torch.inf)
        mean = torch.einsum("bn,bnc->bc", scores.softmax(1), rows)
        return scores, mean, self.linear_out(torch.cat([mean, query], 1)).tanh()


class EncoderLSTM(nn.Module):
    def __init__(self, words: int, word: int, hidden: int, elmo: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, word, 0)
        self.lstm = nn.LSTM(word, hidden // 2, batch_first=True, bidirectional=True)
        self.encoder2decoder = nn.Linear(hidden, hidden)
        if elmo:
            self.elmo_weight, self.gamma = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(1))

    def forward(self, tokens: Tensor, length: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sentences in order of falling length; the maximum is over padding as well."""
        packed = pack_padded_sequence(self.embedding(tokens), length, batch_first=True)
        outputs, (_, cell) = self.lstm(packed)
        context = pad_packed_sequence(outputs, batch_first=True)[0]
        state = self.encoder2decoder(context.max(1)[0]).tanh()
        return context, state, torch.cat([cell[-1], cell[-2]], 1)


class AttnDecoderLSTM(nn.Module):
    def __init__(self, action: int, hidden: int, features: int, angle: int) -> None:
        super().__init__()
        self.embedding = nn.Sequential(nn.Linear(angle, action), nn.Tanh())
        self.lstm = nn.LSTMCell(action + features, hidden)
        self.feat_att_layer = SoftDotAttention(hidden, features)
        self.attention_layer = SoftDotAttention(hidden, hidden)
        self.candidate_att_layer = SoftDotAttention(hidden, features)

    def forward(
        self, pose: Tensor, views: Tensor, candidates: Tensor, attended: Tensor, cell: Tensor,
        context: Tensor, padding: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """Logits [B, K + 1], h_t, c_t, attended h_t; pose [B, A], views [B, 36, F'], candidates [B, K + 1, F']."""
        seen = self.feat_att_layer(attended, views)[1]
        hidden, cell = self.lstm(torch.cat([self.embedding(pose), seen], 1), (attended, cell))
        attended = self.attention_layer(hidden, context, padding)[2]
        return self.candidate_att_layer(attended, candidates)[0], hidden, cell, attended


class Critic(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        layers = nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.5), nn.Linear(hidden, 1)
        self.state2value = nn.Sequential(*layers)

    def forward(self, state: Tensor) -> Tensor:
        return self.state2value(state).squeeze()


class SpeakerEncoder(nn.Module):
    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, hidden // 2, batch_first=True, bidirectional=True)
        self.attention_layer = SoftDotAttention(hidden, features)
        self.post_lstm = nn.LSTM(hidden, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, actions: Tensor, views: Tensor) -> Tensor:
        """actions [B, T, F'], views [B, T, 36, F'] -> [B, T, H]."""
        moves = self.lstm(actions)[0]
        seen = self.attention_layer(moves.flatten(0, 1), views.flatten(0, 1))[2]
        return self.post_lstm(seen.view(moves.shape))[0]


class SpeakerDecoder(nn.Module):
    def __init__(self, words: int, word: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, word, 0)
        self.lstm = nn.LSTM(word, hidden, batch_first=True)
        self.attention_layer = SoftDotAttention(hidden, hidden)
        self.projection = nn.Linear(hidden, words)
        layers = nn.Linear(hidden, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 1)
        self.baseline_projection = nn.Sequential(*layers)

    def forward(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Logits [B, L, V] after each word, over all places of the paths."""
        hidden = self.lstm(self.embedding(tokens))[0]
        read = [self.attention_layer(h, context)[2] for h in hidden.unbind(1)]
        return self.projection(torch.stack(read, 1))


def save(file: Path, modules: Mapping[str, nn.Module], **options: Any) -> Path:
    """As the public code snapshots: every module's state and that of its own optimizer, which has made a step."""
    states = {}
    for name, module in modules.items():
        optimizer = torch.optim.RMSprop(module.parameters(), lr=0.0)
        sum(p.sum() for p in module.parameters()).backward()  # type: ignore[union-attr]
        optimizer.step()
        states[name] = {
            "epoch": 71,
            "state_dict": module.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
    torch.save(states, file, **options)
    return file
