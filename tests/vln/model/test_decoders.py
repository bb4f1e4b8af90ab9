"""A decoder of one's own is used once, on tiny arrays, before anything is trained; the project's would pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fedsuite.errors import InputError
from fedsuite.settings.values import importing_only
from fedsuite.vln.checks import validate
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.model.agent import ActionDecoder, Decided, Panorama
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.decoders import DECODERS, TINY, check_decoder
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.prompted import PromptedDecoder
from tests.harness import changed


class Good(ActionDecoder):
    pass


class Tuples(ActionDecoder):
    def forward(self, *given: Any) -> Any:
        return tuple(super().forward(*given))


class NoStop(ActionDecoder):
    def forward(self, *given: Any) -> Any:
        decided = super().forward(*given)
        return decided._replace(logits=decided.logits[:, 1:])


class Anywhere(ActionDecoder):
    def forward(self, *given: Any) -> Any:
        decided = super().forward(*given)
        return decided._replace(logits=decided.logits.nan_to_num(neginf=0.0))


class Detached(ActionDecoder):
    def forward(self, *given: Any) -> Any:
        return Decided(*(part.detach() for part in super().forward(*given)))


class Mixed(ActionDecoder):
    def forward(self, *given: Any) -> Any:
        decided = super().forward(*given)
        return decided._replace(logits=decided.logits + decided.hidden.mean())


class ReadsNothing(ActionDecoder):
    def attention(self, hidden: Tensor, words: Tensor) -> Tensor:
        return hidden


class Unread(ActionDecoder):
    def attention(self, hidden: Tensor, words: Tensor) -> Tensor:
        raise NotImplementedError("later")


def linear(sizes: Any) -> Any:
    return torch.nn.Linear(2, 2)


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_of_the_project_would_pass(name: str) -> None:
    check_decoder(name, DECODERS[name])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Tuples", r"gives a tuple, expected Decided\(logits"),
        ("NoStop", r"gives shapes \[\[2, 3\], .*expected \[\[2, 4\], \[2, 6\]"),
        ("Anywhere", "expected -inf at padding alone, never NaN"),
        ("Detached", "gives logits without a gradient"),
        ("Mixed", "decides otherwise for an episode alone"),
        ("ReadsNothing", r"has attention of shape \[2, 6\], expected \[T, L\] = \[2, 4\]"),
        ("Unread", r"tried on tiny arrays \(NotImplementedError: later\); correct it"),
        ("linear", "makes a Linear, expected a Decoder of fedsuite"),
    ],
)
def test_what_does_not_decide_is_refused_in_one_line(name: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as refusal:
        validate(changed(FedVLNConfig(), decoder=f"{__name__}:{name}"))
    line = str(refusal.value)
    assert line.startswith("agent.decoder: ") and name in line and "\n" not in line


def test_a_node_imports_what_it_allows() -> None:
    config = changed(FedVLNConfig(), decoder=f"{__name__}:Good")
    with importing_only((f"{__name__}:Good",)):
        validate(config)
    with importing_only(("x:y",)), pytest.raises(InputError, match="not imported here; allowed: x"):
        validate(config)


def test_trying_one_draws_nothing_from_the_global_generator() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    validate(changed(FedVLNConfig(), decoder=f"{__name__}:Good"))
    assert torch.rand(1) == expected


def test_prompts_of_0_are_not_there_and_others_are_added_to_words_and_state() -> None:
    """Against EnvDrop's decoder with the vector put into its context, and its state raised by hand."""
    torch.manual_seed(0)
    plain = ActionDecoder(TINY)
    torch.manual_seed(0)
    prompted = PromptedDecoder(TINY)
    assert torch.equal(decide(plain).logits, decide(prompted).logits)
    with torch.no_grad():
        prompted.prompt.language.copy_(torch.linspace(-1, 1, TINY.hidden))
        prompted.prompt.state.copy_(torch.linspace(2, -1, TINY.hidden))

    class Raised(ActionDecoder):
        def updated(self, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
            hidden, cell = super().updated(gates, cell)
            return hidden + torch.linspace(2, -1, TINY.hidden), cell

    raised = Raised(TINY)
    raised.load_state_dict(plain.state_dict())
    want, got = decide(raised, torch.linspace(-1, 1, TINY.hidden)), decide(prompted)
    for part, twin in zip(got, want, strict=True):
        torch.testing.assert_close(part, twin)
    assert not torch.allclose(got.logits, decide(plain).logits)


def decide(decoder: ActionDecoder, added: Tensor | None = None) -> Decided:
    random = torch.Generator().manual_seed(1)
    words = torch.randn(2, 5, TINY.hidden, generator=random)
    state = torch.randn(2, TINY.hidden, generator=random)
    see = Panorama(
        torch.randn(2, 36, TINY.feature, generator=random), torch.randn(2, 36, 4, generator=random),
        torch.randn(2, 3, TINY.feature, generator=random), torch.randn(2, 3, 4, generator=random),
        torch.zeros(2, 3, dtype=torch.bool), torch.randn(2, 4, generator=random), torch.zeros(2, 3, dtype=torch.int64),
    )  # fmt: skip
    words = words if added is None else words + added
    language = SharedContext(words, torch.zeros(2, 5, dtype=torch.bool))
    decided: Decided = decoder(see, state, state, language, NO_DROPOUT, Gathered())
    return decided


def test_merging_by_prompts_needs_some() -> None:
    keys = {"federation.merge": "pba", "federation.tolerated": 1}
    with pytest.raises(InputError, match=r"pba goes by prompts, which agent\.decoder=envdrop has"):
        validate(changed(FedVLNConfig(), **keys))
    validate(changed(FedVLNConfig(), **keys, **{"agent.decoder": "prompted"}))
