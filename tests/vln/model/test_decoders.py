"""A decoder of one's own is used once, on tiny arrays, before anything is trained; the project's would pass."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fedsuite.errors import InputError
from fedsuite.settings.values import importing_only
from fedsuite.vln.checks import validate
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.model.agent import ActionDecoder, Decided
from fedsuite.vln.model.decoders import DECODERS, check_decoder
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
