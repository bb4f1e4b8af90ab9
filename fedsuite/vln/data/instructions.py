r"""Instructions of Room-to-Room and Room-across-Room: tokens, vocabulary, encoded samples.

Source: R2R (Anderson et al. 2018), with the tokenisation and vocabulary rule of its released code: split on runs of
non-word characters `(\W+)` and keep them, lower-case, break pure punctuation into single characters unless it
is only full stops. Vocabulary: PAD, UNK, EOS, then words seen at least five times in training, by decreasing
frequency, then BOS as the last index. Only ASCII punctuation is broken up, and a piece with a space inside
(a quote after a comma) stays whole, as in that code.

Hindi and Telugu (RxR, Ku et al. 2020): vowel signs are marks, which `\W` takes for separators, so that rule would tear
words apart. A sentence with a character of an Indic script is split into runs of letters, marks and digits instead, and
every punctuation character or symbol is a token. The sentence tells which rule is meant, not a setting: vocabulary,
encoding and speaker scores see the same tokens with all languages in one run, and English stays as it is.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable, read_json

PAD, UNK, EOS = 0, 1, 2
BASE_WORDS = ("<PAD>", "<UNK>", "<EOS>")
BOS_WORD = "<BOS>"
_SEPARATORS = re.compile(r"(\W+)")
_PUNCTUATION = frozenset(string.punctuation)
_INDIC = re.compile("[\u0900-\u0dff]")  # Unicode blocks from Devanagari to Sinhala
_JOINERS = "\u200c\u200d"  # zero-width, inside words they choose between two forms of a letter


def tokenize(sentence: str) -> list[str]:
    """Lower-case tokens of one instruction."""
    if _INDIC.search(sentence):
        return _indic_tokens(sentence.lower())
    tokens: list[str] = []
    for piece in (p.strip().lower() for p in _SEPARATORS.split(sentence.strip())):
        if not piece:
            continue
        if set(piece) <= _PUNCTUATION and piece.strip("."):
            tokens.extend(piece)
        else:
            tokens.append(piece)
    return tokens


def _indic_tokens(sentence: str) -> list[str]:
    """Runs of letters, marks and digits, joiners inside them kept; visible other characters one by one."""
    tokens: list[str] = []
    word = ""
    for character in f"{sentence} ":
        kind = unicodedata.category(character)[0]
        if kind in "LMN" or (character in _JOINERS and word):
            word += character
            continue
        if word:
            tokens.append(word.rstrip(_JOINERS))
        word = ""
        if kind in "PS":
            tokens.append(character)
    return tokens


@dataclass(frozen=True)
class Vocabulary:
    """words: PAD, UNK, EOS, the known words, BOS; V = len(words)."""

    words: tuple[str, ...]

    @cached_property
    def index(self) -> dict[str, int]:
        """Word -> index."""
        return {w: i for i, w in enumerate(self.words)}

    @property
    def bos(self) -> int:
        """Index of the start symbol, V - 1."""
        return len(self.words) - 1

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, sentence: str, max_length: int) -> np.ndarray:
        """BOS + tokens + EOS as int64 [<= max_length]; a longer one is cut and its last position set to EOS."""
        known = [self.index.get(t, UNK) for t in tokenize(sentence)]
        if not known:
            raise ValueError("an instruction must hold at least one token")
        ids = np.array([self.bos, *known, EOS][:max_length])
        ids[-1] = EOS
        return ids


def build_vocabulary(sentences: Iterable[str], min_count: int = 5) -> Vocabulary:
    """Words with at least `min_count` uses, most frequent first; ties keep the order of first appearance."""
    return vocabulary_of(count_words(sentences), min_count)


def count_words(sentences: Iterable[str]) -> Counter[str]:
    """Uses of every word, in order of first appearance."""
    return Counter(t for s in sentences for t in tokenize(s))


def vocabulary_of(uses: Mapping[str, int], min_count: int) -> Vocabulary:
    """The same of words that are counted already, in order of first appearance."""
    found = Counter(uses).most_common()
    words = [w for w, n in found if n >= min_count and w not in BASE_WORDS]
    return Vocabulary((*BASE_WORDS, *words, BOS_WORD))


def read_vocabulary(file: Path) -> Vocabulary:
    """A given vocabulary: a run's vocabulary.json, or a word a line without <BOS>, as in the release of EnvDrop.

    InputError unless it starts with the three base words and every word stands in it once.
    """
    kind = "a vocabulary, one word a line from <PAD>, <UNK>, <EOS> on"
    cure = "give a train_vocab.txt, or the vocabulary.json of a run"
    if file.suffix == ".json":
        words = read_json(file, "a vocabulary, a list of words", cure)
    else:
        check_readable(file)
        try:
            words = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        except (OSError, ValueError) as error:
            raise InputError(
                f"{file}: not {kind} ({type(error).__name__}: {error}); {cure}"
            ) from None
        words.append(BOS_WORD)
    if problem := _no_vocabulary(words):
        raise InputError(f"{file}: not {kind} ({problem}); {cure}")
    return Vocabulary(tuple(words))


def _no_vocabulary(words: object) -> str:
    """What keeps these words from being a vocabulary."""
    if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
        return "it holds other things than words"
    if tuple(words[:3]) != BASE_WORDS or words[-1] != BOS_WORD:
        return f"it starts with {words[:3]} and ends with {words[-1:]}"
    if len(words) == len(BASE_WORDS) + 1:
        return "it holds no word"
    twice = [w for w, n in Counter(words).items() if n > 1 or not w]
    return f"{twice[0]!r} is empty or stands in it twice" if twice else ""
