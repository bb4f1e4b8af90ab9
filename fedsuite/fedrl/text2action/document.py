"""Checked access to the JSON of a corpus of texts: every complaint names the file and the place in it."""

import json
from dataclasses import dataclass
from typing import Any

from fedsuite.errors import InputError
from fedsuite.fedrl.text2action.corpus import NUM_FOLDS, Action
from fedsuite.storage.files import sha256_of


def digest_of(document: object) -> str:
    """SHA-256 of a document, however it is laid out."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256_of(canonical.encode())


@dataclass(frozen=True)
class Part:
    """A value of the document, and what it is called in complaints."""

    value: Any
    source: str
    name: str

    def wrong(self, complaint: str) -> InputError:
        return InputError(f"{self.source}: {self.name}: {complaint}")

    def entry(self, key: str, kind: type) -> "Part":
        """value[key], which must be of `kind`."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        part = Part(value, self.source, f"{self.name}.{key}".removeprefix("."))
        if not isinstance(value, kind) or isinstance(value, bool):
            name = {list: "a list", dict: "a table", int: "a whole number"}[kind]
            got = "nothing" if value is None else type(value).__name__
            raise part.wrong(f"expected {name}, got {got}; convert it again")
        return part

    def items(self, key: str) -> "list[Part]":
        """The elements of value[key], which must be a list."""
        return self.entry(key, list).each()

    def each(self) -> "list[Part]":
        return [Part(v, self.source, f"{self.name}[{k}]") for k, v in enumerate(self.value)]

    def texts(self) -> tuple[str, ...]:
        if not isinstance(self.value, list) or not all(isinstance(v, str) for v in self.value):
            raise self.wrong("expected a list of texts; convert it again")
        return tuple(self.value)

    def indices(self, values: list[Any], low: int, high: int) -> tuple[int, ...]:
        """`values`, all of them whole numbers in low..high-1."""
        for index in values:
            if not isinstance(index, int) or isinstance(index, bool) or not low <= index < high:
                raise self.wrong(f"expected a word index from {low} to {high - 1}, got {index!r}")
        return tuple(values)


def action_of(act: Part, num_words: int) -> Action:
    """One action; all its indices lie inside the text."""
    word, kind = (act.entry(key, int) for key in ("i", "t"))
    objects, rivals = (act.entry(key, list) for key in ("o", "r"))
    if kind.value not in (1, 2, 3):
        raise kind.wrong(f"expected 1, 2 or 3, got {kind.value}")
    word.indices([word.value], 0, num_words)
    rivals.indices(rivals.value, 0, num_words)
    if len(objects.value) != 2 or not all(isinstance(side, list) for side in objects.value):
        raise objects.wrong("expected two lists of words")
    first, second = (objects.indices(side, -1, num_words) for side in objects.value)
    if word.value in rivals.value or set(first) & set(second):
        raise act.wrong("expected words that exclude others, not themselves")
    return Action(word.value, kind.value, (first, second), tuple(rivals.value))


def folds_of(stored: Part, key: str, size: int) -> tuple[tuple[int, ...], ...]:
    """Five folds that together hold every index below `size` once."""
    part = stored.entry(key, list)
    folds = part.value
    if len(folds) != NUM_FOLDS or not all(isinstance(fold, list) for fold in folds):
        raise part.wrong(f"expected {NUM_FOLDS} lists, got {len(folds)}")
    indices = [index for fold in folds for index in fold]
    whole = all(isinstance(index, int) for index in indices)
    if not whole or sorted(indices) != list(range(size)) or not all(folds):
        raise part.wrong(
            f"expected a partition of 0..{size - 1} into {NUM_FOLDS} folds, got "
            f"{len(indices)} indices, {len(set(map(str, indices)))} of them distinct"
        )
    return tuple(tuple(fold) for fold in folds)
