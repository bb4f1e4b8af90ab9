"""Word vectors: training against a dense computation, and the three file formats, whole and damaged."""

import struct
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.fedrl.text2action.vectors import read_vectors, train_vectors, trained_or_cached

TEXTS = [
    text.split()
    for text in (
        "Open the lid and pour the oil",
        "open the box and close the lid then pour water",
        "cut the tree and water the soil",
        "alone",
    )
]
TABLE = {"click": [0.5, -1.0, 2.0], "Click": [1.0, 1.0, 1.0], "menu": [0.0, 3.0, -0.25]}


def dense_ppmi(texts: list[list[str]]) -> np.ndarray:
    """PPMI by counting pairs one by one."""
    words = list(dict.fromkeys(w.lower() for text in texts for w in text))
    counts = np.zeros((len(words), len(words)))
    for text in texts:
        for i, one in enumerate(text):
            for j, two in enumerate(text):
                if i != j and abs(i - j) <= 5:
                    counts[words.index(one.lower()), words.index(two.lower())] += 1
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.log(counts * counts.sum() / np.outer(counts.sum(1), counts.sum(0)))
    return np.where(counts > 0, np.maximum(found, 0), 0)


def test_trained_vectors_are_the_scaled_factors_of_ppmi() -> None:
    found = train_vectors(TEXTS, size=4, seed=1)
    left, strengths, _ = np.linalg.svd(dense_ppmi(TEXTS))
    wanted = left[:, :4] * np.sqrt(strengths[:4])
    got = found.vectors[1:].astype(float)
    lengths = np.linalg.norm(wanted, axis=1)
    here = lengths > 1e-9
    unit, wanted_unit = (v[here] / np.linalg.norm(v[here], axis=1)[:, None] for v in (got, wanted))
    np.testing.assert_allclose(unit @ unit.T, wanted_unit @ wanted_unit.T, atol=1e-5)
    scale = np.clip(2 * lengths[here] / np.median(lengths[here]), 1, 3)
    np.testing.assert_allclose(np.linalg.norm(got[here], axis=1), scale, rtol=1e-5)
    assert not got[~here].any() and (~here).sum() == 1  # "alone" has no neighbours


def test_training_is_deterministic_and_pads_small_vocabularies() -> None:
    one, two = (train_vectors(TEXTS, size=50, seed=3) for _ in range(2))
    assert one.rows == two.rows and one.vectors.tobytes() == two.vectors.tobytes()
    assert one.vectors.shape == (15, 50) and one.vectors.dtype == np.float32
    assert not one.vectors[0].any() and not one.vectors[:, 13:].any()
    assert one.row("OPEN") == one.row("open") == 1 and one.row("never-seen") == 0
    assert train_vectors([["alone"]], 3).vectors.tolist() == [[0, 0, 0], [0, 0, 0]]


def test_vectors_are_cached(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    one = trained_or_cached(TEXTS, 4, 0, "digest", folder)
    (file,) = folder.iterdir()
    written = file.stat().st_mtime_ns
    two = trained_or_cached(TEXTS, 4, 0, "digest", folder)
    assert one.rows == two.rows and one.vectors.tobytes() == two.vectors.tobytes()
    assert file.stat().st_mtime_ns == written
    trained_or_cached(TEXTS, 4, 0, "another digest", folder)
    assert len(list(folder.iterdir())) == 2


def binary(line_ends: bytes) -> bytes:
    """word2vec's binary format."""
    rows = (w.encode() + b" " + struct.pack("<3f", *v) + line_ends for w, v in TABLE.items())
    return b"3 3\n" + b"".join(rows)


def text() -> str:
    """GloVe's format."""
    return "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in TABLE.items())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("v.bin", binary(b"\n")),
        ("w.bin", binary(b"")),
        ("v.txt", b"3 3\n" + text().encode()),
        ("glove.txt", text().encode()),
    ],
)
def test_every_format_is_read(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    found = read_vectors(tmp_path / name, ["Click", "Menu", "tree"])
    assert found.vectors.dtype == np.float32 and found.vectors.shape == (4, 3)
    assert found.vectors[found.row("Click")].tolist() == TABLE["Click"]
    assert found.vectors[found.row("CLICK")].tolist() == TABLE["click"]
    assert found.vectors[found.row("Menu")].tolist() == TABLE["menu"]
    assert found.row("tree") == 0 and not found.vectors[0].any()
    only = read_vectors(tmp_path / name, ["menu"])
    assert only.vectors.shape == (2, 3)


def test_words_of_glove_may_hold_spaces(tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("a 1 2 3\n. . . 4 5 6\nmenu 7 8 9\n")
    assert read_vectors(tmp_path / "g.txt", ["menu"]).vectors[1].tolist() == [7, 8, 9]


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("v.bin", binary(b"\n")[:-6], "expected 3 words of 3 float32, the file ends in word 3"),
        ("v.bin", b"GIF89a", "line 1: expected \"number-of-words number-of-components\""),
        ("v.bin", b"1 3\nclick " + struct.pack("<3f", 1, np.nan, 1), "word 1 .click.: expected finite"),
        ("v.txt", b"3 3\nclick 1 2 3\nmenu 1 2\n", "line 3: expected a word and 3 numbers, got 2"),
        ("v.txt", b"3 3\nclick 1 2 3\nmenu 1 2 3\n", "expected 3 words, got 2"),
        ("v.txt", b"click 1 2 3\nmenu 1 x 3\n", "line 2: expected a word and 3 numbers, got something"),
        ("v.txt", b"click 1 2 inf\n", "line 1: expected finite numbers"),
        ("v.txt", b"", "expected vectors of the texts' words, got none"),
        ("v.txt", b"tree 1 2 3\n", "expected vectors of the texts' words, got none"),
    ],
)  # fmt: skip
def test_damaged_files_are_named(tmp_path: Path, name: str, data: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=complaint) as caught:
        read_vectors(tmp_path / name, ["click", "menu"])
    assert str(caught.value).startswith(str(tmp_path / name)) and "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.bin: no such file; data.word-vectors must be"):
        read_vectors(tmp_path / "none.bin", ["click"])
