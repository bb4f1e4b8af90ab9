"""Which round's model becomes the result."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.arrays import Arrays, with_prefix
from fedsuite.federation import Scalar
from fedsuite.vln.config import FedVLNConfig
from strategies.selection import BEST, BEST_ROUND, best_of, criteria, keep_best

AGENT = FedVLNConfig(selection="best-val-unseen")
SPEAKER = FedVLNConfig(stage="speaker", selection="best-val-seen")
NAMES = {
    "train": ("val_unseen.sr", "val_unseen.spl"),
    "speaker": ("val_seen.bleu-2", "val_seen.bleu-4"),
}


def model_of(number: int) -> Arrays:
    return {"w": np.full(2, number, np.float32)}


def played(
    config: FedVLNConfig, scores: list[tuple[float, float] | None]
) -> tuple[Arrays, dict[str, Scalar]]:
    """State after rounds 0, 1, ... with these pairs of scores; None: the round was not evaluated."""
    arrays: Arrays = {}
    scalars: dict[str, Scalar] = {}
    for number, pair in enumerate(scores):
        metrics = dict(zip(NAMES[config.stage], pair, strict=True)) if pair else {"train.loss": 1.0}
        arrays, scalars = keep_best(config, number, metrics, model_of(number), scalars, arrays)
    return arrays, scalars


def first_argmax(scores: list[tuple[float, float] | None]) -> int:
    """Slow twin: look at every round."""
    best, at = (-1.0, -1.0), -1
    for number, pair in enumerate(scores):
        if pair is not None and (pair[0] > best[0] or (pair[0] == best[0] and pair[1] > best[1])):
            best, at = pair, number
    return at


# Few values, so that ties are common.
PAIR = st.tuples(st.sampled_from([0.0, 0.25, 0.5]), st.sampled_from([0.0, 0.125, 0.25]))


@pytest.mark.parametrize("config", [AGENT, SPEAKER])
@given(scores=st.lists(st.none() | PAIR, max_size=9), first=PAIR)
def test_the_earliest_of_the_best_is_kept(
    config: FedVLNConfig,
    scores: list[tuple[float, float] | None],
    first: tuple[float, float],
) -> None:
    every = [first, *scores]
    arrays, scalars = played(config, every)
    best = first_argmax(every)
    assert scalars[BEST_ROUND] == best
    assert best_of(arrays)["w"].tolist() == [best, best]
    assert set(arrays) == {f"{BEST}w"}


def test_the_first_score_decides_and_the_second_among_equals() -> None:
    assert played(AGENT, [(0.2, 0.1), (0.1, 0.9), (0.2, 0.15), (0.2, 0.15)])[1][BEST_ROUND] == 2


def test_scores_of_nothing_still_choose_a_round() -> None:
    """A speaker's BLEU-2 may be 0 for long."""
    assert played(SPEAKER, [(0.0, 0.0), (0.0, 0.0)])[1][BEST_ROUND] == 0


def test_a_run_that_takes_the_last_round_keeps_nothing() -> None:
    config = replace(AGENT, selection="last")
    assert criteria(config) is None
    assert played(config, [(0.1, 0.1), (0.2, 0.2)]) == ({}, {})


@pytest.mark.parametrize(
    ("stage", "selection", "names"),
    [
        ("train", "best-val-seen", ("val_seen.sr", "val_seen.spl")),
        ("augment", "best-val-unseen", ("val_unseen.sr", "val_unseen.spl")),
        ("pre-explore", "best-val-unseen", ("val_unseen.sr", "val_unseen.spl")),
        ("speaker", "best-val-seen", ("val_seen.bleu-2", "val_seen.bleu-4")),
        ("speaker", "best-val-unseen", ("val_unseen.bleu-2", "val_unseen.bleu-4")),
    ],
)
def test_what_decides(stage: str, selection: str, names: tuple[str, str]) -> None:
    assert criteria(FedVLNConfig(stage=stage, selection=selection)) == names


def test_best_models_names_are_found_again() -> None:
    arrays = {"w": np.ones(1), **with_prefix({"w": np.zeros(1), "best.w": np.ones(2)}, BEST)}
    assert {k: v.tolist() for k, v in best_of(arrays).items()} == {"w": [0], "best.w": [1, 1]}
