"""Decoders of the agent by name, values of `agent.decoder`; one of one's own is used once before any training."""

from collections.abc import Mapping

import torch
from torch import Tensor

from fedsuite.errors import InputError
from fedsuite.settings.values import chosen, shown, tried
from fedsuite.vln.config import AgentSettings
from fedsuite.vln.model.agent import (
    ActionDecoder,
    AgentSizes,
    Decided,
    Decoder,
    DecoderMaker,
    Panorama,
)
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.prompted import PromptedDecoder

KEY = "agent.decoder"
DECODERS: Mapping[str, DecoderMaker] = {"envdrop": ActionDecoder, "prompted": PromptedDecoder}
TINY = AgentSizes(vocabulary=5, feature=3, angle=8, hidden=6, word=2, action=2)
VIEWS, WORDS = 36, 4


def decoder_of(agent: AgentSettings) -> DecoderMaker:
    """What makes the decoder that `agent.decoder` names."""
    make: DecoderMaker = chosen(KEY, agent.decoder, DECODERS, ("sizes",))
    return make


def tried_decoder(agent: AgentSettings) -> None:
    """InputError if a decoder of one's own does not decide."""
    make = decoder_of(agent)
    if agent.decoder not in DECODERS:
        with tried(KEY, agent.decoder), torch.random.fork_rng(devices=[]):
            check_decoder(agent.decoder, make)


def check_decoder(name: str, make: DecoderMaker) -> None:
    """Of a decoder of tiny sizes: shapes, no way to where no candidate is, gradients, rows that do not see one another."""
    decoder = make(TINY)
    if not isinstance(decoder, Decoder):
        _refuse(name, f"makes a {type(decoder).__name__}", f"a Decoder of {Decoder.__module__}")
    decided = _decide(decoder, slice(None))
    if not isinstance(decided, Decided):
        kind = type(decided).__name__
        _refuse(name, f"gives a {kind}", f"Decided(logits, hidden, cell, state) of {Decided.__module__}")  # fmt: skip
    shapes = [list(part.shape) for part in decided]
    wanted = [[2, 4], *3 * [[2, TINY.hidden]]]
    if shapes != wanted:
        _refuse(name, f"gives shapes {shapes}", f"{wanted} for 2 episodes and 3 candidates")
    open_to = (decided.logits > float("-inf")).tolist()
    if open_to != [[True] * 4, [True] * 3 + [False]] or decided.logits.isnan().any():
        _refuse(name, f"gives logits {decided.logits.tolist()}", "-inf at padding alone, never NaN")
    if not decided.logits.requires_grad:
        _refuse(name, "gives logits without a gradient", "tensors that its parameters made")
    alone = _decide(decoder, slice(1, 2)).logits
    if not torch.allclose(alone, decided.logits[1:], atol=1e-5):
        _refuse(name, "decides otherwise for an episode alone", "rows that do not see one another")
    read = decoder.attention(decided.hidden, torch.ones(WORDS, TINY.hidden))
    if tuple(read.shape) != (2, WORDS):
        _refuse(name, f"has attention of shape {list(read.shape)}", f"[T, L] = [2, {WORDS}]")


def _decide(decoder: Decoder, rows: slice) -> Decided:
    """A decision of two episodes, or of some; the second has 2 candidates instead of 3."""

    def numbers(*shape: int) -> Tensor:
        count = int(torch.tensor(shape).prod())
        return torch.linspace(-1.0, 1.0, count).view(shape)[rows]

    padding = torch.tensor([[False, False, False], [False, False, True]])[rows]
    see = Panorama(
        views=numbers(2, VIEWS, TINY.feature),
        view_angle=numbers(2, VIEWS, 4),
        candidate=numbers(2, 3, TINY.feature),
        candidate_angle=numbers(2, 3, 4),
        padding=padding,
        pose_angle=numbers(2, 4),
        candidate_view=torch.zeros_like(padding, dtype=torch.int64),
    )
    words = numbers(2, WORDS, TINY.hidden).requires_grad_()
    language = SharedContext(words, torch.zeros(words.shape[:2], dtype=torch.bool))
    state = numbers(2, TINY.hidden)
    decided: Decided = decoder(see, state, state, language, NO_DROPOUT, Gathered())
    return decided


def _refuse(name: str, got: str, expected: str) -> None:
    raise InputError(f"{KEY}: {shown(name)} {got}, expected {expected}")
