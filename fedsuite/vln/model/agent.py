"""The EnvDrop navigation agent: language encoder, attentive action decoder, critic.

Source: EnvDrop (Tan et al. 2019) as used by FedVLN (Zhou & Wang 2022). Symbols: B batch, L words, K candidates, V = 36
views, F visual width, A angle width, F' = F + A, H hidden size.

Angle features are [sin h, cos h, sin e, cos e] repeated A/4 times. They are never built: a product with repeated entries
is a product with the sum over the repeats, so attention over F' is computed exactly from F + 4 numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from fedsuite.vln.data.instructions import PAD
from fedsuite.vln.model.attention import SharedContext, SoftDotAttention, dot_scores
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.lstm import Packing, bilstm, cell_update
from fedsuite.vln.model.products import linear, per_row
from fedsuite.vln.model.rows import Chosen

NEGATIVE = float("-inf")


@dataclass(frozen=True)
class Sizes:
    """Vocabulary, F, A, H (even), word embedding; dead_layers: with those that the official code never trains."""

    vocabulary: int
    feature: int
    angle: int = 128
    hidden: int = 512
    word: int = 256
    dead_layers: bool = False

    def __post_init__(self) -> None:
        if self.angle % 4 or self.hidden % 2:
            raise ValueError(
                f"angle size must be a multiple of 4 and hidden size even, got {self.angle}, {self.hidden}"
            )


@dataclass(frozen=True)
class AgentSizes(Sizes):
    """Sizes of an agent; action: width of the action embedding."""

    action: int = 64


@dataclass(frozen=True)
class Panorama:
    """What the agent sees at one step, visual parts already dropped out.

    views [B, 36, F], view_angle [B, 36, 4]; candidate [B, K, F], candidate_angle [B, K, 4]; padding [B, K] True where there
    is no candidate; pose_angle [B, 4], the camera's absolute direction; candidate_view [B, K] number of the view that looks
    at the candidate.
    """

    views: Tensor
    view_angle: Tensor
    candidate: Tensor
    candidate_angle: Tensor
    padding: Tensor
    pose_angle: Tensor
    candidate_view: Tensor


class LanguageEncoder(nn.Module):
    """Instruction -> context and initial decoder state; the part that Fed-Lan shares."""

    def __init__(self, sizes: AgentSizes, masked_pooling: bool = True) -> None:
        super().__init__()
        self.masked_pooling = masked_pooling
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.word, padding_idx=PAD)
        self.lstm = nn.LSTM(sizes.word, sizes.hidden // 2, batch_first=True, bidirectional=True)
        self.to_hidden = nn.Linear(sizes.hidden, sizes.hidden)

    def forward(
        self, tokens: Tensor, length: Tensor, dropout: Dropout
    ) -> tuple[SharedContext, Tensor, Tensor]:
        """tokens [B, L] int64, length [B] int64 on the CPU -> context [B, L, H], h~_0 [B, H], c_0 [B, H]."""
        packing = Packing(length, tokens.shape[1])
        # Words are embedded in packed order and put back afterwards: padding costs nothing.
        words = Chosen.at(packing.place, tokens.numel(), tokens.device)
        embedded = dropout(self.embedding(words.of(tokens.flatten())))
        outputs, cell = bilstm(self.lstm, embedded, packing)
        context = words.put_back(outputs).unflatten(0, tokens.shape)
        padding = tokens == PAD
        masked = context.detach().masked_fill(padding.unsqueeze(2), NEGATIVE)
        most = (masked if self.masked_pooling else context.detach()).max(1, keepdim=True).indices
        hidden = torch.tanh(self.to_hidden(context.gather(1, most).squeeze(1)))
        return SharedContext(dropout(context), padding), hidden, torch.cat([cell[1], cell[0]], 1)


class Decided(NamedTuple):
    """logits [B, 1 + K], stop first, -inf where there is no candidate; hidden [B, H], what the critic values; cell and
    state [B, H], handed to the next decision."""

    logits: Tensor
    hidden: Tensor
    cell: Tensor
    state: Tensor


class Decoder(nn.Module):
    """What an agent decides by, made with its AgentSizes. Rows of a batch are independent: finished episodes leave it."""

    def forward(
        self,
        see: Panorama,
        state: Tensor,
        cell: Tensor,
        language: SharedContext,
        dropout: Dropout,
        gathered: Gathered,
    ) -> Decided:
        """One decision. state, cell [B, H]: the language encoder's at first, then those of the decision before; words are
        read by language.read(query [B, H]) -> [B, H]; dropout(x), x [B, H'], or `dropout.several`; gathered.times(x, W) is
        x W^T, with W's gradient computed once a rollout (W x by torch is as good, and slower)."""
        raise NotImplementedError

    def attention(self, hidden: Tensor, words: Tensor) -> Tensor:
        """How much each of L words [L, H] was read at T decisions, by their hidden [T, H]: [T, L], for figures alone."""
        raise NotImplementedError


class ActionDecoder(Decoder):
    """EnvDrop's: look, update the state, read the instruction, score the candidates. The state is h~, not h. update: makes h
    and c of gates and the c before."""

    update: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = staticmethod(cell_update)

    def __init__(self, sizes: AgentSizes) -> None:
        super().__init__()
        self.repeats = sizes.angle // 4
        width, hidden = sizes.feature + sizes.angle, sizes.hidden
        self.action = nn.Linear(sizes.angle, sizes.action)
        self.cell = nn.LSTMCell(sizes.action + width, hidden)
        self.view_attention = SoftDotAttention(hidden, width, output=False, dead=sizes.dead_layers)
        self.language_attention = SoftDotAttention(hidden, hidden, output=True)
        self.candidate_attention = SoftDotAttention(
            hidden, width, output=False, dead=sizes.dead_layers
        )
        self.dropped = [sizes.action, *3 * [hidden]]

    def forward(
        self,
        see: Panorama,
        state: Tensor,
        cell: Tensor,
        language: SharedContext,
        dropout: Dropout,
        gathered: Gathered,
    ) -> Decided:
        """h~_{t-1}, c_{t-1} -> logits, h_t, c_t, h~_t. Stop is a zero feature scored without bias: its logit is 0."""
        of_pose, of_state, of_hidden, of_attended = dropout.several(len(state), self.dropped)
        pose = see.pose_angle.repeat(1, self.repeats)
        pose = of_pose(torch.tanh(linear(pose, self.action)))
        query = gathered.times(of_state(state), self.view_attention.query.weight)
        scores = dot_scores(query, see.views, see.view_angle)
        weight = torch.softmax(scores, 1).unsqueeze(1)
        visual = torch.bmm(weight, see.views).squeeze(1)
        angle = torch.bmm(weight, see.view_angle).squeeze(1)
        inputs = torch.cat([pose, visual, angle.repeat(1, self.repeats)], 1)
        bias = per_row(self.cell.bias_ih + self.cell.bias_hh, inputs)
        gates = gathered.times(inputs, self.cell.weight_ih) + bias
        gates = gates + gathered.times(state, self.cell.weight_hh)
        hidden, cell = self.updated(gates, cell)
        dropped, words = of_hidden(hidden), self.language_attention
        both = [self.read(language, gathered.times(dropped, words.query.weight)), dropped]
        attended = torch.tanh(gathered.times(torch.cat(both, 1), words.output.weight))
        query = gathered.times(of_attended(attended), self.candidate_attention.query.weight)
        scores = dot_scores(query, see.candidate, see.candidate_angle)
        scores = scores.masked_fill(see.padding, NEGATIVE)
        logits = torch.cat([scores.new_zeros(len(scores), 1), scores], 1)
        return Decided(logits, hidden, cell, attended)

    def updated(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """h_t, c_t [B, H] from the cell's gates [B, 4 H] and c_{t-1}."""
        return self.update(gates, cell)

    def read(self, language: SharedContext, query: Tensor) -> Tensor:
        """What is read of the instruction [B, H]."""
        return language.read(query)

    def attention(self, hidden: Tensor, words: Tensor) -> Tensor:
        """softmax(C W h_t)."""
        return torch.softmax(self.language_attention.query(hidden) @ words.T, 1)


DecoderMaker = Callable[[AgentSizes], Decoder]


class Critic(nn.Module):
    """State value V(h_t)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, 1)

    def forward(self, hidden: Tensor, dropout: Dropout) -> Tensor:
        """[M, H] -> [M]."""
        return self.value(dropout(relu(self.inner(hidden)))).squeeze(1)


class Agent(nn.Module):
    """All of message_keys.MODULES; an array's name starts with its module's and a dot."""

    def __init__(
        self, sizes: AgentSizes, masked_pooling: bool = True, decoder: DecoderMaker = ActionDecoder
    ) -> None:
        super().__init__()
        self.sizes = sizes
        self.encoder = LanguageEncoder(sizes, masked_pooling)
        self.decoder = decoder(sizes)
        self.critic = Critic(sizes.hidden)


def build_agent(
    sizes: AgentSizes,
    seed: int,
    masked_pooling: bool = True,
    decoder: DecoderMaker = ActionDecoder,
) -> Agent:
    """A freshly initialised agent that depends on the seed alone and leaves the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Agent(sizes, masked_pooling, decoder)
