"""Pairs of networks: published counts, copies by value that optimisers survive, and what the shared stem shares."""

import pytest
import torch
from torch import Tensor

from fedsuite.driving.networks import NetworkKind, build_network, count_parameters
from fedsuite.driving.siamese import SharedStem, TwoNetworks, build_pair, copy_backbone
from fedsuite.errors import InputError


def pictures(seed: int = 0) -> Tensor:
    return torch.rand(4, 1, 40, 40, generator=torch.Generator().manual_seed(seed)) * 255


def test_counts_at_200_pixels() -> None:
    whole, shared = (build_pair("resnet8", 200, 1, share_stem=s) for s in (False, True))
    assert (count_parameters(whole), count_parameters(shared)) == (629_314, 628_482)
    assert count_parameters(whole.backbone) == count_parameters(shared.backbone) == 314_657
    assert count_parameters(shared.sub) == 313_825


@pytest.mark.parametrize("kind", ["resnet8", "fadnet", "mobilenet_v2"])
def test_backbone_is_the_network_of_that_seed_and_sub_begins_as_its_copy(kind: NetworkKind) -> None:
    pair = build_pair(kind, 40, 1, seed=4)
    expected = build_network(kind, 40, 1, seed=4).state_dict()
    for part in (pair.backbone, pair.sub):
        assert all(torch.equal(v, expected[k]) for k, v in part.state_dict().items())
    assert not {p.data_ptr() for p in pair.backbone.parameters()} & {
        p.data_ptr() for p in pair.sub.parameters()
    }


@pytest.mark.parametrize("share_stem", [False, True])
def test_copy_is_by_value_with_statistics_and_keeps_the_optimiser(share_stem: bool) -> None:
    pair = build_pair("resnet8", 40, 1, dropout=0.0, share_stem=share_stem)
    optimiser = torch.optim.SGD(pair.sub.parameters(), lr=0.1)
    with torch.no_grad():
        for p in pair.backbone.parameters():
            p.add_(0.01)
    pair.backbone(pictures())  # moves the statistics of the backbone only
    before = pair.eval()(pictures())
    assert not torch.allclose(before.backbone.predictions, before.sub.predictions)
    copy_backbone(pair)
    after = pair(pictures())
    assert torch.equal(before.backbone.predictions, after.backbone.predictions)
    assert torch.equal(after.backbone.predictions, after.sub.predictions)
    after.sub.predictions.sum().backward()
    optimiser.step()
    stepped = pair(pictures())
    assert not torch.allclose(stepped.sub.predictions, after.sub.predictions)
    assert torch.equal(stepped.backbone.predictions, after.backbone.predictions)


def test_two_networks_share_nothing() -> None:
    pair = build_pair("resnet8", 40, 1)
    assert isinstance(pair, TwoNetworks)
    pair(pictures()).sub.predictions.sum().backward()
    assert all(p.grad is None for p in pair.backbone.parameters())
    assert all(p.grad is not None for p in pair.sub.parameters())


def test_both_losses_reach_a_shared_stem_and_nothing_else_of_the_backbone() -> None:
    pair = build_pair("resnet8", 40, 1, share_stem=True)
    assert isinstance(pair, SharedStem)
    pair(pictures()).sub.predictions.sum().backward()
    assert all(p.grad is not None for p in pair.backbone.stem.parameters())
    assert all(p.grad is None for p in pair.backbone.trunk.parameters())


def test_both_branches_drop_out_by_themselves() -> None:
    output = build_pair("resnet8", 40, 1)(pictures())
    torch.testing.assert_close(output.backbone.features, output.sub.features)
    assert not torch.allclose(output.backbone.predictions, output.sub.predictions)


def test_only_resnet8_shares_its_stem() -> None:
    with pytest.raises(InputError, match=r"share-stem = true: only resnet8 .* got fadnet"):
        build_pair("fadnet", 40, 1, share_stem=True)
