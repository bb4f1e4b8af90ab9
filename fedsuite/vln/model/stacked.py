"""The agents of S houses side by side: their decisions are taken as one batch, every house's rows by its own weights.

Rows of a stacked batch stand house by house, B for each: N = S B. Products have weights [S, O, I]; all else that is done is
of single rows. A house's critic, mini-batches and streams of random numbers stay its own, and so do its weights: a stack has
copies, through which gradients go back. So a house learns what it learns alone, but for the order of sums.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedsuite.vln.environment import World
from fedsuite.vln.model.agent import ActionDecoder, Agent, Decided, Panorama
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import Dropout
from fedsuite.vln.model.products import stacked, with_weights
from fedsuite.vln.model.recording import Recordings
from fedsuite.vln.model.replayed import ReplayedDecoder
from fedsuite.vln.model.replayed_sight import Ahead
from fedsuite.vln.model.sight import observe
from fedsuite.vln.model.stacked_dropout import StackedDropout
from fedsuite.vln.model.stacked_words import encode_stacked


class StackedAgent:
    """Agents of S houses; `decoder`: theirs as one, with weights [S, ..] as they are now."""

    def __init__(self, agents: Sequence[Agent], recordings: Recordings | None = None) -> None:
        """recordings: of decisions and words, to be replayed (recording.py); None launches every kernel by itself."""
        self.agents, self.recordings, first = agents, recordings, agents[0].decoder
        weights = {
            name: stacked([agent.decoder.get_parameter(name) for agent in agents])
            for name, _ in first.named_parameters()
        }
        if recordings is None or not isinstance(first, ActionDecoder):
            self.decoder: Callable[..., Decided] = with_weights(first, weights)
        else:
            self.decoder = ReplayedDecoder(first, weights, recordings.begin())

    def look(
        self,
        world: World,
        viewpoint: Tensor,
        view: Tensor,
        dropout: Dropout,
        factor: Tensor | None = None,
    ) -> Panorama | Ahead:
        """`observe`, or what to look at where the decoder looks itself: decisions that are replayed."""
        decoder, replays = self.decoder, torch.is_grad_enabled() and factor is None
        if replays and self.recordings is not None and isinstance(decoder, ReplayedDecoder):
            assert isinstance(dropout, StackedDropout)
            sizes = decoder.dropped
            if not any(size % 8 for size in (world.views.shape[2], *sizes)):
                return Ahead(self.recordings, world, viewpoint, view, dropout, sizes)
        return observe(world, viewpoint, view, dropout, factor)

    def encoder(
        self, tokens: Tensor, length: Tensor, dropout: Dropout
    ) -> tuple[SharedContext, Tensor, Tensor]:
        """As LanguageEncoder's, of N rows; length [N] is 0 where a house has fewer episodes than B."""
        assert isinstance(dropout, StackedDropout)
        encoders = [agent.encoder for agent in self.agents]
        return encode_stacked(encoders, tokens, length, dropout, self.recordings)

    def values(self, hidden: Tensor, counts: Sequence[int], dropout: StackedDropout) -> Tensor:
        """V [M] by each house's own critic, of so many rows of each, house by house: hidden [M, H]."""
        each = zip(self.agents, hidden.split(list(counts)), dropout.own, strict=True)
        return torch.cat([agent.critic(rows, own) for agent, rows, own in each])
