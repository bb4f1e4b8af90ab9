"""Roads, drives, instructions and texts as data sets of PyTorch: the same numbers that clients train on."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from fedsuite import InputError, Instructions, LabelledTexts, SteeringFrames
from fedsuite.driving.data.frames import open_silo, silo_names
from fedsuite.fedrl.text2action.labels import expert_selection
from fedsuite.vln.data.instructions import tokenize

ROADS = {"data.num-silos": 2, "data.train-frames": 12, "data.test-frames": 5, "data.image-size": 32}


@pytest.fixture
def own(cache: Path) -> dict[str, Any]:
    return {"data.cache-dir": str(cache)}


def test_generated_roads(own: dict[str, Any], cache: Path) -> None:
    frames = SteeringFrames({**own, **ROADS})
    (folder,) = [f.parent for f in cache.glob("roads-*/silos.json") if _is(f.parent)]
    silos = [open_silo(folder, name).train for name in silo_names(folder)]
    assert len(frames) == 24 and frames.silos == tuple(silo_names(folder))
    for index, (silo, row) in {0: (0, 0), 11: (0, 11), 12: (1, 0), -1: (1, 11)}.items():
        picture, angle = frames[index]
        assert picture.dtype == angle.dtype == torch.float32 and picture.shape == (1, 32, 32)
        assert np.array_equal((picture * 255).round().byte(), silos[silo].images[row])
        assert angle == float(silos[silo].angles[row])
    alone = SteeringFrames({**own, **ROADS}, "test", "silo-01")
    assert len(alone) == 5 and torch.equal(alone[2][1], torch.tensor(_angle(folder)))
    with pytest.raises(IndexError):
        frames[24]
    pictures, _ = next(iter(DataLoader(frames, batch_size=20)))
    assert pictures.shape == (20, 1, 32, 32)


def _is(folder: Path) -> bool:
    return len(silo_names(folder)) == 2 and open_silo(folder, "silo-00").train.images.shape == (
        12,
        1,
        32,
        32,
    )


def _angle(folder: Path) -> float:
    return float(open_silo(folder, "silo-01").test.angles[2])


def test_recorded_drives(own: dict[str, Any], tmp_path: Path) -> None:
    """Every frame is as grey as its angle is large."""
    grey = np.arange(100, dtype=np.uint8)
    images = np.broadcast_to(grey[:, None, None, None], (100, 1, 200, 200))
    (tmp_path / "drives").mkdir()
    np.savez(tmp_path / "drives" / "monday.npz", imgs=images, ground_truths=grey / 250)
    given = {**own, "data.dir": str(tmp_path / "drives"), "data.image-size": 32}
    rows = []
    for split in ("train", "test"):
        frames = SteeringFrames(given, split)
        assert frames.silos == ("monday",)
        pictures, angles = next(iter(DataLoader(frames, batch_size=len(frames))))
        assert pictures.shape == (len(frames), 1, 32, 32)
        assert torch.allclose(angles, pictures[:, 0, 5, 5] * 255 / 250)
        rows.append({round(250 * float(angle)) for angle in angles})
        assert len(rows[-1]) == len(frames) > 10
    assert not rows[0] & rows[1]


def test_instructions(data_dir: Path, own: dict[str, Any]) -> None:
    files = {"data.dir": str(data_dir), "data.features": str(data_dir / "features.tsv")}
    walks = Instructions(
        {**own, **files, "data.min-word-count": 2, "data.max-instruction-length": 12}
    )
    assert list(walks.houses) == ["oak", "elm"] and len(walks) == 21  # 7 paths of 3 instructions
    seen = set()
    for number, walk in enumerate(walks):  # type: ignore[arg-type]
        sample = walks.samples[number]
        graph = walks.houses[str(walk["house"])].graph
        path = walk["path"][walk["path"] >= 0]
        assert all(graph.edge[a, b] for a, b in pairwise(path.tolist()))
        assert tuple(path.tolist()) == sample.path
        words = [walks.vocabulary.words[t] for t in walk["tokens"][1 : int(walk["length"]) - 1]]
        assert len(words) == min(len(tokenize(str(walk["text"]))), 10)
        assert not walk["tokens"][int(walk["length"]) :].any() and len(walk["tokens"]) == 12
        seen.add(walk["instruction-id"])
    assert len(seen) == 21
    batch = next(iter(DataLoader(walks, batch_size=4)))
    assert batch["tokens"].shape == (4, 12) and len(batch["text"]) == 4
    assert {w["house"] for w in Instructions({**own, **files}, "val_unseen")} == {"ash"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", ["names", "arguments"])
def test_texts(own: dict[str, Any], task: str) -> None:
    texts = LabelledTexts({**own, "world.task": task})
    batch = next(iter(DataLoader(texts, batch_size=len(texts))))
    behind = torch.arange(batch["words"].shape[1]) >= batch["length"][:, None]
    assert torch.equal(batch["labels"] == -100, behind)
    assert not batch["words"][behind].any() and not batch["parts-of-speech"][behind].any()
    assert texts.tag_names[0] == "PAD" and batch["parts-of-speech"].max() < len(texts.tag_names)
    assert batch["words"].max() < len(texts.word_vectors) and not texts.word_vectors[0].any()
    assert ((batch["action"] >= 0) == (task == "arguments")).all()
    for row in range(3):
        chosen = expert_selection(texts._samples[int(texts._rows[row])])
        labels = texts[row]["labels"][: len(chosen)].numpy()
        assert chosen[labels == 1].all() and not chosen[labels == 0].any()


@pytest.mark.parametrize(
    ("cls", "given", "told"),
    [
        (SteeringFrames, {"split": "valid"}, "split: .*'valid'.*train, test"),
        (SteeringFrames, {"config": ROADS, "silo": "silo-1"}, "silo: .*'silo-01'"),
        (SteeringFrames, {"config": {"data.num-silo": 2}}, "config: .*data.num-silos"),
        (LabelledTexts, {"split": "val"}, "split: .*'valid'"),
        (LabelledTexts, {"config": {"world.kind": "gridworld"}}, "world.kind"),
        (Instructions, {"config": {"data.dirs": "x"}}, "config: .*data.dir"),
    ],
)
def test_what_cannot_be_is_refused(
    own: dict[str, Any], cls: Any, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        cls(**{**given, "config": {**own, **given.get("config", {})}})
