"""Reading a corpus of labelled texts, and saying what is wrong with one.

Schema "t2a-1", gzip-compressed JSON: `texts`: [{sents: [[word]], pos: [[tag]], acts: [ACT]}]; `arg`: per text
[SENT | null]; `folds`: {act5: 5 lists of texts, arg5: 5 lists of argument samples}. ACT = {i: word, t: 1 required | 2
optional | 3 exclusive, o: [objects, objects of the other alternative], r: words of actions that exclude it}, with
indices into the text's words; SENT = {last, this, last_pos, this_pos, acts} with indices into last + this, and -1 for an
object that is not in the text. Argument samples are counted over (text, sentence, act), nulls skipped.
"""

import gzip
import json
import zlib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.text2action.corpus import NUM_FOLDS, Action, Corpus, Passage, Text
from fedsuite.fedrl.text2action.generated import generate_corpus
from fedsuite.storage.files import check_readable, parsed_json, sha256_of

SCHEMA = "t2a-1"
FOLD_KEYS = {"names": "act5", "arguments": "arg5"}


def corpus_file(config: FedRLConfig) -> Path | None:
    """Where the corpus lies; None for a generated one."""
    name = config.data.text_source
    return None if name == "generated" else Path(config.data.dir) / f"t2a_{name}.json.gz"


def read_corpus(config: FedRLConfig) -> Corpus:
    """The corpus that `config` names: generated, or t2a_<corpus>.json.gz in data_dir. Raises InputError."""
    path = corpus_file(config)
    if path is None:
        return parse_corpus(generate_corpus(config.data.generated_seed), "generated corpus")
    if not path.is_file():
        raise InputError(f"{path}: no such file; data.dir must be the folder that holds it")
    check_readable(path)
    try:
        document = parsed_json(gzip.decompress(path.read_bytes()).decode())
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: expected gzip-compressed JSON, got a damaged or other file ({reason}); fetch it again"
        ) from error
    return parse_corpus(document, str(path))


def parse_corpus(document: Any, source: str) -> Corpus:
    """Check a document and turn it into a corpus; `source` names it in complaints. Raises InputError."""
    whole = _Part(document, source, "")
    schema = document.get("schema") if isinstance(document, dict) else type(document).__name__
    if not isinstance(document, dict) or schema != SCHEMA:
        raise InputError(f'{source}: schema: expected "{SCHEMA}", got {schema!r}; convert the file')
    texts, passages = whole.items("texts"), whole.items("arg")
    if len(texts) != len(passages) or not texts:
        raise InputError(
            f"{source}: arg: expected one entry for each of the {len(texts)} texts (at least one), got {len(passages)}"
        )
    pairs = zip(texts, passages, strict=True)
    read = tuple(Text(_text(text), _sentences(sentences)) for text, sentences in pairs)
    samples = sum(len(p.actions) for text in read for p in text.sentences if p is not None)
    sizes = {"names": len(read), "arguments": samples}
    stored = whole.entry("folds", dict)
    folds = {task: _folds(stored, key, sizes[task]) for task, key in FOLD_KEYS.items()}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    name = str(document.get("domain", source))
    return Corpus(name, sha256_of(canonical.encode()), read, folds)


@dataclass(frozen=True)
class _Part:
    """A value of the document, and what it is called in complaints."""

    value: Any
    source: str
    name: str

    def wrong(self, complaint: str) -> InputError:
        return InputError(f"{self.source}: {self.name}: {complaint}")

    def entry(self, key: str, kind: type) -> "_Part":
        """value[key], which must be of `kind`."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        part = _Part(value, self.source, f"{self.name}.{key}".removeprefix("."))
        if not isinstance(value, kind) or isinstance(value, bool):
            name = {list: "a list", dict: "a table", int: "a whole number"}[kind]
            got = "nothing" if value is None else type(value).__name__
            raise part.wrong(f"expected {name}, got {got}; convert it again")
        return part

    def items(self, key: str) -> "list[_Part]":
        """The elements of value[key], which must be a list."""
        return self.entry(key, list).each()

    def each(self) -> "list[_Part]":
        return [_Part(v, self.source, f"{self.name}[{k}]") for k, v in enumerate(self.value)]

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


def _text(text: _Part) -> Passage:
    words, tags = ([row.texts() for row in text.items(key)] for key in ("sents", "pos"))
    if [len(row) for row in words] != [len(row) for row in tags]:
        raise text.entry("pos", list).wrong("expected one tag for every word of sents")
    return _passage(text, tuple(chain.from_iterable(words)), tuple(chain.from_iterable(tags)))


def _sentences(sentences: _Part) -> tuple[Passage | None, ...]:
    """The sentences of a text whose arguments are labelled; null where they are not."""
    if not isinstance(sentences.value, list):
        raise sentences.wrong("expected a list of sentences; convert it again")
    return tuple(None if s.value is None else _sentence(s) for s in sentences.each())


def _sentence(sentence: _Part) -> Passage:
    last, this, last_tags, this_tags = (
        sentence.entry(key, list).texts() for key in ("last", "this", "last_pos", "this_pos")
    )
    if len(last) != len(last_tags) or len(this) != len(this_tags):
        raise sentence.wrong("expected one tag for every word of last and this")
    return _passage(sentence, last + this, last_tags + this_tags)


def _passage(part: _Part, words: tuple[str, ...], tags: tuple[str, ...]) -> Passage:
    """Words with their checked actions."""
    acts = part.entry("acts", list)
    if not words:
        raise part.wrong("expected at least one word, got none")
    actions = tuple(_action(act, len(words)) for act in acts.each())
    if len({action.word for action in actions}) < len(actions):
        raise acts.wrong("expected one label for a word, got two")
    return Passage(words, tags, actions)


def _action(act: _Part, num_words: int) -> Action:
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


def _folds(stored: _Part, key: str, size: int) -> tuple[tuple[int, ...], ...]:
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
