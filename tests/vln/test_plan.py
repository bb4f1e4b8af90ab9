"""A run that could not be scored, or would have nobody to train, is refused before anything is trained."""

from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.roster.members import Member, Roster
from fedsuite.storage.progress import silent
from fedsuite.vln.config import FedVLNConfig
from simulations.fedvln.server import make_strategy, prepare
from tests.harness import changed

CASES: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "best unseen": (
        ("val_unseen",), {"selection": "best-val-unseen"},
        "evaluation.selection: best-val-unseen, but val_unseen is empty; "
        "put instructions into it, or choose last or best-val-seen",
    ),
    "best seen": (
        ("val_seen",), {"selection": "best-val-seen"},
        "evaluation.selection: best-val-seen, but val_seen is empty; "
        "put instructions into it, or choose last or best-val-unseen",
    ),
    "neither": (("val_seen", "val_unseen"), {}, "data.dir: val_seen and val_unseen are empty, so nothing could be scored"),
    "nobody explores": (
        ("val_unseen",), {"stage": "pre-explore"}, "stage: pre-explore is for unseen houses, but val_unseen has none"
    ),
}  # fmt: skip
FINE = [("val_unseen", "last"), ("val_unseen", "best-val-seen"), ("val_seen", "best-val-unseen")]


def config_of(data_dir: Path, tmp_path: Path, empty: tuple[str, ...], **keys: Any) -> FedVLNConfig:
    """A run on the three houses, without the instructions of some splits."""
    for split in empty:
        (data_dir / "annotations" / f"R2R_{split}.json").write_text("[]")
    own = {"dir": str(data_dir), "features": str(data_dir / "features.tsv")}
    return changed(FedVLNConfig(), **own, cache_dir=str(tmp_path / "cache"), **keys)


@pytest.mark.parametrize("case", CASES)
def test_empty_splits_are_refused(data_dir: Path, tmp_path: Path, case: str) -> None:
    empty, keys, words = CASES[case]
    with pytest.raises(InputError) as caught:
        prepare(config_of(data_dir, tmp_path, empty, **keys), silent)
    assert words in str(caught.value)


@pytest.mark.parametrize(("empty", "selection"), FINE)
def test_an_empty_split_that_nobody_needs(
    data_dir: Path, tmp_path: Path, empty: str, selection: str
) -> None:
    prepare(config_of(data_dir, tmp_path, (empty,), selection=selection), silent)


def test_a_server_without_data_knows_by_the_roster() -> None:
    """One that counts nothing is believed."""
    own = {"houses": ["oak"], "numbers": [0]}
    for counts in ({"train": [3], "val_seen": [1]}, {}):
        member = Member("oak", "seen", 3, own | counts)
        roster = Roster((member,), {"feature-size": 8}, ("<PAD>", "<UNK>", "<EOS>", "<BOS>"))
        config = changed(FedVLNConfig(), selection="best-val-unseen")
        if not counts:
            make_strategy(config, roster)
            continue
        with pytest.raises(InputError, match="val_unseen is empty"):
            make_strategy(config, roster)
