"""Instructions that are stored as ids of BERT's word pieces (bert-base-uncased), as VLN-DUET, HAMT and ScaleVLN have them.

An id is a line of the vocabulary, counted from 0; 0, 101 and 102 are padding, beginning and end. A piece that begins with ##
goes on with the word before it. Words are joined by blanks, so that the tokenizer of this project finds those of the text;
it may part runs of punctuation otherwise.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.storage.files import check_readable

MARKS = {0: "[PAD]", 101: "[CLS]", 102: "[SEP]"}
KIND = "the vocab.txt of bert-base-uncased, a word piece a line"
CURE = "give the file that lies beside that model"


def read_pieces(file: Path) -> tuple[str, ...]:
    """Word pieces by id; InputError unless the marks stand where bert-base-uncased has them."""
    check_readable(file, KIND, CURE)
    try:
        pieces = tuple(file.read_text(encoding="utf-8").split("\n"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: not {KIND} ({type(error).__name__}: {error}); {CURE}") from None
    pieces = pieces[:-1] if pieces[-1] == "" else pieces
    for number, mark in MARKS.items():
        if number >= len(pieces) or pieces[number] != mark:
            raise InputError(f"{file}: not {KIND} (line {number + 1} is not {mark}); {CURE}")
    return pieces


def text_of(ids: Any, pieces: Sequence[str]) -> str:
    """The text of one instruction; ValueError if an id is none of the vocabulary's."""
    if not isinstance(ids, list) or not all(type(i) is int for i in ids):
        raise ValueError("an instr_encoding must be a list of whole numbers")
    if strange := [i for i in ids if not 0 <= i < len(pieces)]:
        raise ValueError(f"id {strange[0]} is not among the {len(pieces)} word pieces")
    return " ".join(pieces[i] for i in ids if i not in MARKS).replace(" ##", "")
