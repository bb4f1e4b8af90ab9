"""Controls hide what they say and nothing else."""

from collections import Counter

import numpy as np
import pytest

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.ablations import apply_ablations
from fedsuite.vln.data.instructions import EOS
from tests.harness import changed


def texts(samples) -> list[str]:
    return [s.text for s in samples]


def paths(samples) -> list[tuple]:
    return [(s.instr_id, s.path, s.start_view) for s in samples]


def test_nothing_is_hidden_by_default(oak):
    assert apply_ablations(oak, FedVLNConfig(), 0) == oak


def test_without_language_all_instructions_are_the_empty_one(oak):
    blind = apply_ablations(oak, changed(FedVLNConfig(), blind_to="language"), 0)
    bos = oak.samples["train"][0].tokens[0]
    for split, samples in oak.samples.items():
        assert all(s.tokens.tolist() == [bos, EOS] and s.text == "" for s in blind.samples[split])
        assert paths(blind.samples[split]) == paths(samples)
    assert blind.views is oak.views


def test_without_vision_all_views_are_zero(oak):
    blind = apply_ablations(oak, changed(FedVLNConfig(), blind_to="vision"), 0)
    assert blind.views.shape == oak.views.shape and blind.views.dtype == np.float32
    assert not blind.views.any() and oak.views.any()
    assert blind.candidates is oak.candidates and blind.samples == oak.samples


@pytest.mark.parametrize("number", [0, 3])
def test_shuffling_deals_training_instructions_anew(oak, number):
    config = changed(FedVLNConfig(), shuffle_instructions=True)
    mixed = apply_ablations(oak, config, number)
    before, after = oak.samples["train"], mixed.samples["train"]
    assert paths(after) == paths(before)
    assert Counter(texts(after)) == Counter(texts(before)) and texts(after) != texts(before)
    tokens = {s.text: s.tokens.tolist() for s in before}
    assert all(s.tokens.tolist() == tokens[s.text] for s in after)
    assert mixed.samples["val_seen"] == oak.samples["val_seen"]
    assert texts(apply_ablations(oak, config, number).samples["train"]) == texts(after)


def test_shuffles_differ_by_house_and_seed(oak):
    config = changed(FedVLNConfig(), shuffle_instructions=True)
    dealt = {
        tuple(texts(apply_ablations(oak, changed(config, seed=s), p).samples["train"]))
        for s in (0, 1)
        for p in (0, 1)
    }
    assert len(dealt) == 4


def test_a_house_without_training_instructions_is_left_as_it_is(prepared):
    ash = prepared.house("ash")
    assert (
        apply_ablations(ash, changed(FedVLNConfig(), shuffle_instructions=True), 2).samples
        == ash.samples
    )
