"""Word vectors: trained on the texts themselves, or read from a word2vec or GloVe file.

Training needs no labels: counts of word pairs at most `WINDOW` words apart inside a text, positive pointwise mutual
information (Levy & Goldberg 2014: PPMI = max(0, log p(a, b) / p(a) p(b))), and its truncated singular value decomposition,
U sqrt(S). Lengths are then brought to word2vec's scale: the median becomes 2, and they are clipped to 1..3.

Letters: V words, D components. Row 0 is always zeros: padding, and words without a vector.
"""

import io
import itertools
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from fedsuite.errors import InputError
from fedsuite.randomness import rng_for
from fedsuite.settings.values import is_number
from fedsuite.storage.files import check_readable, sha256_of, write_atomically

WINDOW = 5


@dataclass(frozen=True)
class WordVectors:
    """rows: word -> row of `vectors` float32 [V, D]; row 0 is zeros."""

    rows: dict[str, int]
    vectors: np.ndarray

    def row(self, word: str) -> int:
        """Row of a word as it is written, else of its lower case, else 0."""
        return self.rows.get(word, self.rows.get(word.lower(), 0))


def train_vectors(texts: Iterable[Sequence[str]], size: int = 50, seed: int = 0) -> WordVectors:
    """Vectors of all lower-cased words of `texts`; the same for the same arguments. Components beyond V - 1 are 0."""
    lowered = [[word.lower() for word in text] for text in texts]
    words = list(dict.fromkeys(itertools.chain.from_iterable(lowered)))
    rows = {word: k + 1 for k, word in enumerate(words)}
    table = np.zeros((len(words) + 1, size), np.float32)
    rank = min(size, len(words) - 1)
    if rank > 0:
        ppmi = _ppmi(_pair_counts([[rows[w] - 1 for w in text] for text in lowered], len(words)))
        table[1:, :rank] = _factors(ppmi, rank, seed)
    return WordVectors(rows, table)


def _pair_counts(texts: Iterable[Sequence[int]], num_words: int) -> csr_array:
    """How often two words [V, V] stand at most WINDOW apart; symmetric."""
    rows = [np.array(text, np.int64) for text in texts]
    left = np.concatenate([ids[:-gap] for ids in rows for gap in range(1, WINDOW + 1)])
    right = np.concatenate([ids[gap:] for ids in rows for gap in range(1, WINDOW + 1)])
    counts = csr_array((np.ones(len(left)), (left, right)), (num_words, num_words))
    return counts + counts.T


def _ppmi(counts: csr_array) -> csr_array:
    """Positive pointwise mutual information [V, V] of pair counts."""
    coo = counts.tocoo()
    single = np.asarray(counts.sum(1)).ravel()
    total = single.sum()
    values = np.log(coo.data * total / (single[coo.coords[0]] * single[coo.coords[1]]))
    return csr_array((np.maximum(values, 0), coo.coords), counts.shape)


def _factors(ppmi: csr_array, rank: int, seed: int) -> np.ndarray:
    """U sqrt(S) [V, rank], largest first, the largest entry of every column positive, on word2vec's scale."""
    start = rng_for(seed, "word vectors").normal(size=ppmi.shape[0])
    left, strengths, _ = svds(ppmi, k=rank, v0=start)
    order = np.argsort(-strengths)
    found = left[:, order] * np.sqrt(strengths[order])
    peaks = found[np.abs(found).argmax(0), np.arange(rank)]
    found *= np.where(peaks < 0, -1.0, 1.0)
    lengths = np.linalg.norm(found, axis=1)
    present = lengths > 1e-9
    scale = np.zeros(len(found))
    scale[present] = np.clip(2 * lengths[present] / np.median(lengths[present]), 1, 3)
    return found * (scale / np.where(present, lengths, 1.0))[:, None]


def trained_or_cached(
    texts: Sequence[Sequence[str]], size: int, seed: int, digest: str, folder: Path
) -> WordVectors:
    """`train_vectors`, kept in `folder` under a name that holds the corpus's digest."""
    key = sha256_of(f"{digest}|{size}|{seed}|{WINDOW}".encode())[:16]
    file = folder / f"text2action_vectors_{key}.npz"
    if file.is_file():
        check_readable(file)
        try:
            with np.load(file) as stored:
                words, table = stored["words"].tolist(), stored["vectors"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(
                f"{file}: damaged ({error}); move it away, the vectors are then trained anew"
            ) from None
        return WordVectors({word: k + 1 for k, word in enumerate(words)}, table)
    found = train_vectors(texts, size, seed)
    buffer = io.BytesIO()
    np.savez(buffer, words=np.array(list(found.rows)), vectors=found.vectors)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(file, buffer.getvalue())
    return found


# --- files -----------------------------------------------------------------------------------


def read_vectors(path: Path, words: Iterable[str]) -> WordVectors:
    """Vectors of those of `words` that a file holds, as written or in lower case.

    A name that ends in .bin is word2vec's binary format; a text file with a first line "V D" is word2vec's, without
    one GloVe's. Raises InputError.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: no such file; data.word-vectors must be a word2vec or GloVe file, or empty"
        )
    check_readable(path)
    wanted = {form for word in words for form in (word, word.lower())}
    found = _read_binary(path, wanted) if path.suffix == ".bin" else _read_text(path, wanted)
    if not found:
        raise InputError(
            f"{path}: expected vectors of the texts' words, got none of {len(wanted)}; "
            "is it of another language?"
        )
    vectors = np.stack(list(found.values()))
    table = np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors])
    return WordVectors({word: k + 1 for k, word in enumerate(found)}, table)


def _read_binary(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """word2vec binary: a line "V D", then V times word, space, D little-endian float32, and perhaps a line end."""
    found: dict[str, np.ndarray] = {}
    with path.open("rb") as file:
        count, size = _header(path, file.readline(200))
        for number in range(1, count + 1):
            word = _binary_word(file)
            data = file.read(4 * size)
            if word is None or len(data) < 4 * size:
                raise InputError(
                    f"{path}: expected {count} words of {size} float32, the file ends in word {number}; fetch it again"
                )
            text = word.decode("utf-8", errors="replace")
            if text in wanted:
                vector = np.frombuffer(data, "<f4").astype(np.float32)
                found.setdefault(text, _finite(vector, path, f"word {number} ({text})"))
    return found


def _binary_word(file: io.BufferedReader) -> bytes | None:
    """Bytes up to the next space, without line ends in front; None at the end of the file or after 10,000 bytes."""
    word = bytearray()
    while len(word) < 10_000:
        byte = file.read(1)
        if byte == b" ":
            return bytes(word)
        if not byte:
            return None
        if byte != b"\n":
            word += byte
    return None


def _header(path: Path, line: bytes) -> tuple[int, int]:
    """V and D of a word2vec file's first line."""
    parts = line.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) < 1:
        raise InputError(
            f'{path}: line 1: expected "number-of-words number-of-components", got {line[:40]!r}; '
            "a .bin file must be word2vec's binary format"
        )
    return int(parts[0]), int(parts[1])


def _read_text(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """word2vec text (first line "V D") or GloVe: a word and D numbers in each line, separated by spaces."""
    found: dict[str, np.ndarray] = {}
    size, count, number = 0, -1, 0
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, 1):
            parts = line.rstrip("\r\n ").split(" ")
            if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                count, size = int(parts[0]), int(parts[1])
                continue
            size = size or len(parts) - 1
            if size < 1 or len(parts) <= size:
                raise InputError(
                    f"{path}: line {number}: expected a word and {max(size, 1)} numbers, got {len(parts) - 1} numbers"
                )
            word = " ".join(parts[: len(parts) - size])  # GloVe has words that hold spaces
            try:
                vector = np.array(parts[len(parts) - size :], np.float32)
            except ValueError as error:
                raise InputError(
                    f"{path}: line {number}: expected a word and {size} numbers, got something else "
                    "(other numbers of components than in the first line?)"
                ) from error
            if "." in (last := word.rpartition(" ")[2]) and " " in word and is_number(last):
                raise InputError(
                    f"{path}: line {number}: expected a word and {size} numbers as in the first line, got more numbers"
                )
            if word in wanted:
                found.setdefault(word, _finite(vector, path, f"line {number}"))
    if count >= 0 and number - 1 != count:
        raise InputError(f"{path}: expected {count} words, got {number - 1}; fetch the file again")
    return found


def _finite(vector: np.ndarray, path: Path, where: str) -> np.ndarray:
    if not np.isfinite(vector).all():
        raise InputError(f"{path}: {where}: expected finite numbers, got {vector[:4]} ...")
    return vector
