"""Losses and networks of one's own are tried on tiny arrays; those of the project would pass."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedsuite.driving.checks import validate
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.ineffective import UNREAD
from fedsuite.driving.model.layers import Output
from fedsuite.driving.training.contrastive import CONTRASTIVE_LOSSES, ContrastiveLoss, Pair
from fedsuite.driving.trials import check_loss
from fedsuite.errors import InputError
from fedsuite.settings.unread import unread_lines
from fedsuite.settings.values import importing_only
from tests.harness import changed

TINY: dict[str, Any] = {"num-silos": 3, "image-size": 32}


def config(**short: Any) -> CDLConfig:
    return changed(CDLConfig(), **TINY, **short)


def difference(pair: Pair) -> tuple[torch.Tensor, torch.Tensor]:
    own, other = pair.own, pair.other
    return (own - other.detach()).abs().mean(), (other - own.detach()).abs().mean()


def branching(pair: Pair) -> tuple[torch.Tensor, torch.Tensor]:
    """Not under vmap."""
    plus, minus = difference(pair)
    return (plus, minus) if float(plus) < 9 else (minus, plus)


GOOD = ContrastiveLoss(difference)
BRANCHING = ContrastiveLoss(branching)
NO_LABELS = ContrastiveLoss(lambda pair: (2 * [(pair.own - pair.other).square().mean()])[:2])  # type: ignore[arg-type, return-value]
PULLS_BOTH = ContrastiveLoss(lambda p: ((p.own - p.other).square().mean(), p.own.new_zeros(())))
PER_FRAME = ContrastiveLoss(lambda pair: (pair.own, pair.other))
INFINITE = ContrastiveLoss(lambda pair: (pair.own.mean() / 0, pair.other.mean()))
FAILS = ContrastiveLoss(lambda pair: pair.nothing)  # type: ignore[attr-defined]
TWO_TAKES = ContrastiveLoss(lambda a, b: (a, b))  # type: ignore[misc, arg-type]


class Steers(torch.nn.Module):
    def __init__(self, image_size: int, channels: int, norm: str, dropout: float) -> None:
        super().__init__()
        self.head = torch.nn.Linear(channels, 1)

    def forward(self, images: torch.Tensor) -> Any:
        features = images.mean((2, 3))
        return Output(self.head(features).squeeze(1), features)


class Tuples(Steers):
    def forward(self, images: torch.Tensor) -> Any:
        return tuple(super().forward(images))


class Column(Steers):
    def forward(self, images: torch.Tensor) -> Any:
        return Output(self.head(images.mean((2, 3))), images.mean((2, 3)))


class Doubles(Steers):
    def forward(self, images: torch.Tensor) -> Any:
        return Output(*(part.double() for part in super().forward(images)))


class Controls(Steers):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.control = torch.nn.Linear(1, 1)


class Loud(Steers):
    def forward(self, images: torch.Tensor) -> Any:
        raise RuntimeError("no such\nlayer")


def number(image_size: int, channels: int, norm: str, dropout: float) -> int:
    return image_size


@pytest.mark.parametrize("name", CONTRASTIVE_LOSSES)
@pytest.mark.parametrize("stacked", ["yes", "no"])
def test_every_loss_of_the_project_would_pass(name: str, stacked: str) -> None:
    loss = CONTRASTIVE_LOSSES[name]
    for space in loss.spaces:
        check_loss(config(loss=name, loss_space=space, stacked=stacked), loss)


def test_what_says_soft_labels_has_them() -> None:
    released = replace(CONTRASTIVE_LOSSES["kl_release"], soft_labels=True)
    with pytest.raises(InputError, match=r"L_cd\+ has a gradient to the sub-network; detach it"):
        check_loss(config(loss="kl_release"), released)


@pytest.mark.parametrize("stacked", ["yes", "no"])
def test_ones_own_are_taken(stacked: str) -> None:
    own = {"loss": f"{__name__}:GOOD", "model": f"{__name__}:Steers", "stacked": stacked}
    validate(config(**own, sub_network="own"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"loss": "PER_FRAME"}, "expected two finite scalars as tensors"),
        ({"loss": "INFINITE"}, "expected two finite scalars as tensors"),
        ({"loss": "NO_LABELS"}, "expected two finite scalars as tensors"),  # a list
        ({"loss": "PULLS_BOTH"}, r"L_cd\+ has a gradient to the sub-network"),
        ({"loss": "FAILS"}, r"tried on tiny arrays \(AttributeError: 'Pair' object has no"),
        ({"loss": "TWO_TAKES"}, r"expected a Python function of \(pair\)"),
        ({"loss": "difference"}, "is a function, expected a ContrastiveLoss of"),
        ({"loss": "BRANCHING", "stacked": "yes"}, "with training.stacked: .*fails"),
        ({"model": "Tuples"}, r"gives a tuple, expected Output\(predictions"),
        ({"model": "Column"}, r"gives predictions \[3, 1\] and features \[3, 1\] for 3 frames"),
        ({"model": "Doubles"}, r"numbers of type torch\.float64"),
        ({"model": "Loud"}, r"RuntimeError: no such.*layer\); correct it"),
        ({"model": "Controls"}, "the network has a layer 'control', .*rename it"),
        ({"model": "number"}, r"makes a int, expected a torch\.nn\.Module"),
        ({"model": "GOOD"}, r"expected a Python function of \(image_size, channels"),
        ({"model": "Steers", "share_stem": True}, "has no stem to share"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(changes: dict[str, Any], told: str) -> None:
    key = "objective.loss" if "loss" in changes else "network.model"
    key = "network.share-stem" if "share_stem" in changes else key
    own = {k: f"{__name__}:{v}" if k in ("loss", "model") else v for k, v in changes.items()}
    with pytest.raises(InputError, match=told) as refusal:
        validate(config(**own))
    assert str(refusal.value).startswith(key) and "\n" not in str(refusal.value)


def test_own_gradients_go_with_a_trained_sub_network_alone(monkeypatch: Any) -> None:
    both = replace(PULLS_BOTH, soft_labels=False)
    monkeypatch.setitem(globals(), "PULLS_BOTH", both)
    own = {"loss": f"{__name__}:PULLS_BOTH"}
    validate(config(**own))
    with pytest.raises(
        InputError, match=r"objective\.sub-network: average, but .*PULLS_BOTH sends"
    ):
        validate(config(**own, sub_network="average"))


@pytest.mark.parametrize("key", ["loss", "model"])
def test_a_node_imports_what_it_allows(key: str) -> None:
    name = f"{__name__}:{'GOOD' if key == 'loss' else 'Steers'}"
    with importing_only((name,)):
        validate(config(**{key: name}))
    with (
        importing_only(("elsewhere:x",)),
        pytest.raises(InputError, match=f"{key}: .*not imported here; allowed: elsewhere:x"),
    ):
        validate(config(**{key: name}))


@pytest.mark.parametrize("loss", ["kl", f"{__name__}:GOOD"])
def test_what_ones_own_reads_is_not_known(loss: str) -> None:
    lines = unread_lines(config(loss=loss, chain_steps=3), UNREAD)
    assert any("objective.chain-steps" in line for line in lines) == (loss == "kl")
