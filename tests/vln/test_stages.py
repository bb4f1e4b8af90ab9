"""What a stage trains on, for how long, and what leaves a house."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.arrays import module_arrays
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.model.agent import AgentSizes, build_agent
from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker
from fedsuite.vln.stages import (
    describes_paths,
    exchange_of,
    local_steps,
    modules_of,
    visit_steps,
)
from tests.harness import changed

SIZES = AgentSizes(vocabulary=12, feature=8, angle=4, hidden=8, word=4, action=4, dead_layers=True)
ARRAYS = module_arrays(build_agent(SIZES, 0))
EXPLORE = FedVLNConfig(stage="pre-explore")
# stage, method, share -> the modules that leave a house, and whether it keeps an agent of its own
LEVELS = [
    ("train", "federated", "agent", 3, False),
    ("train", "centralised", "agent", 3, False),
    ("augment", "federated", "agent", 3, False),
    ("pre-explore", "centralised", "agent", 3, False),
    ("pre-explore", "federated", "agent", 3, True),
    ("pre-explore", "federated", "language-encoder", 1, True),
    ("pre-explore", "local-only", "agent", 0, True),
]


@pytest.mark.parametrize(("stage", "method", "share", "modules", "personal"), LEVELS)
def test_levels_of_disclosure(
    stage: str, method: str, share: str, modules: int, personal: bool
) -> None:
    config = changed(FedVLNConfig(), stage=stage, method=method, share=share)
    sent = exchange_of(config).share.select(ARRAYS)
    prefixes = {0: (), 1: ("encoder.",), 3: ("encoder.", "decoder.", "critic.")}[modules]
    assert set(sent) == {k for k in ARRAYS if k.startswith(prefixes)}
    assert all(sent[k] is ARRAYS[k] for k in sent)
    assert len(modules_of(sent)) == modules and exchange_of(config).personal is personal


def test_a_speaker_is_shared_whole() -> None:
    speaker = module_arrays(build_speaker(SpeakerSizes(12, 8, angle=4, hidden=8, word=4), 0))
    assert exchange_of(FedVLNConfig(stage="speaker")).share.select(speaker).keys() == speaker.keys()


def test_optimizer_state_is_no_module() -> None:
    assert modules_of({"optimizer.encoder.w": 1, "best.critic.b": 1}) == set()


@pytest.mark.parametrize(
    ("samples", "epochs", "steps"),
    [(280, 5, 22), (300, 5, 24), (6, 5, 1), (64, 1, 1), (65, 1, 2), (9, 10, 2)],
)
def test_local_steps(samples, epochs, steps):
    assert local_steps(samples, epochs, 64) == steps


@given(n=st.integers(1, 9000), tau=st.integers(1, 20), batch=st.integers(1, 128))
def test_steps_by_counting(n: int, tau: int, batch: int) -> None:
    """Mini-batches until tau passes are through; in augmented training every other one is of another kind."""
    read = steps = 0
    while read < tau * n:
        read, steps = read + batch, steps + 1
    config = changed(FedVLNConfig(), local_epochs=tau, batch_size=batch)
    for stage in ("train", "speaker", "pre-explore"):
        assert visit_steps(changed(config, stage=stage), n) == steps
    assert visit_steps(changed(config, stage="augment"), n) == steps // 2 + steps % 2


def test_published_steps_of_unseen_houses() -> None:
    """Sampled paths of the eleven R2R houses; one epoch with batches of 64."""
    paths = (2186, 542, 2540, 97, 2614, 352, 1214, 880, 593, 6472, 1320)
    config = changed(EXPLORE, local_epochs=1, batch_size=64)
    assert [visit_steps(config, n) for n in paths] == [35, 9, 40, 2, 41, 6, 19, 14, 10, 102, 21]


def test_published_steps_of_augmented_training() -> None:
    """ceil(ceil(5 * 280 / 64) / 2) = 11, not ceil(5 * 280 / 128) of all sizes."""
    config = changed(FedVLNConfig(), stage="augment", local_epochs=5, batch_size=64)
    assert visit_steps(config, 280) == 11 and visit_steps(config, 6) == 1
    assert all(visit_steps(config, n) == math.ceil(math.ceil(5 * n / 64) / 2) for n in range(1, 99))


def test_stages_that_need_a_speaker() -> None:
    found = [
        s
        for s in ("train", "speaker", "augment", "pre-explore")
        if describes_paths(FedVLNConfig(stage=s))
    ]
    assert found == ["augment", "pre-explore"]


def test_what_is_shared_is_a_view_of_the_same_numbers() -> None:
    shared = exchange_of(changed(EXPLORE, share="language-encoder")).share.select(ARRAYS)
    assert sum(a.nbytes for a in shared.values()) == sum(
        a.nbytes for k, a in ARRAYS.items() if k.split(".")[0] == "encoder"
    )
    assert all(np.array_equal(a, ARRAYS[k]) for k, a in shared.items())
