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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.text2action.corpus import NUM_FOLDS, Action, Corpus, Passage, Text
from fedsuite.fedrl.text2action.generated import generate_corpus
from fedsuite.files import sha256_of

SCHEMA = "t2a-1"
FOLD_KEYS = {"names": "act5", "arguments": "arg5"}


def read_corpus(config: FedRLConfig) -> Corpus:
    """The corpus that `config` names: generated, or t2a_<corpus>.json.gz in data_dir. Raises InputError."""
    name = config.data.text_source
    if name == "generated":
        return parse_corpus(generate_corpus(config.data.generated_seed), "generated corpus")
    if not config.data.dir:
        raise InputError(
            f"data.dir: corpus {name!r} needs the folder that holds t2a_{name}.json.gz, got nothing; "
            'name it, or set data.corpus to "generated"'
        )
    return read_file(Path(config.data.dir) / f"t2a_{name}.json.gz")


def read_file(path: Path) -> Corpus:
    """A corpus from a .json.gz file. Raises InputError."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; data.dir must be the folder that holds it")
    try:
        document = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: expected gzip-compressed JSON, got a damaged or other file ({reason}); fetch it again"
        ) from error
    return parse_corpus(document, str(path))


def parse_corpus(document: Any, source: str) -> Corpus:
    """Check a document and turn it into a corpus; `source` names it in complaints. Raises InputError."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        got = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise InputError(f'{source}: schema: expected "{SCHEMA}", got {got!r}; convert the file')
    texts = _items(document, "texts", source, "")
    passages = _items(document, "arg", source, "")
    if len(texts) != len(passages) or not texts:
        raise InputError(
            f"{source}: arg: expected one entry for each of the {len(texts)} texts (at least one), got {len(passages)}"
        )
    read = tuple(
        Text(_text(text, source, f"texts[{k}]"), _sentences(sentences, source, f"arg[{k}]"))
        for k, (text, sentences) in enumerate(zip(texts, passages, strict=True))
    )
    samples = sum(len(p.actions) for text in read for p in text.sentences if p is not None)
    sizes = {"names": len(read), "arguments": samples}
    stored = _entry(document, "folds", dict, source, "")
    folds = {task: _folds(stored, key, sizes[task], source) for task, key in FOLD_KEYS.items()}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    name = str(document.get("domain", source))
    return Corpus(name, sha256_of(canonical.encode()), read, folds)


def _entry(parent: Any, key: str, kind: type, source: str, where: str) -> Any:
    """parent[key], which must be of `kind`."""
    value = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        name = {list: "a list", dict: "a table", int: "a whole number"}[kind]
        got = "nothing" if value is None else type(value).__name__
        raise InputError(f"{source}: {where}{key}: expected {name}, got {got}; convert it again")
    return value


def _items(parent: Any, key: str, source: str, where: str) -> list[Any]:
    """parent[key], which must be a list."""
    items: list[Any] = _entry(parent, key, list, source, where)
    return items


def _all_texts(value: Any, source: str, where: str) -> tuple[str, ...]:
    """A list of words or tags."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise InputError(f"{source}: {where}: expected a list of texts; convert it again")
    return tuple(value)


def _text(text: Any, source: str, where: str) -> Passage:
    """A whole text."""
    sides = []
    for key in ("sents", "pos"):
        rows = _items(text, key, source, f"{where}.")
        sides.append([_all_texts(row, source, f"{where}.{key}[{k}]") for k, row in enumerate(rows)])
    if [len(s) for s in sides[0]] != [len(s) for s in sides[1]]:
        raise InputError(f"{source}: {where}.pos: expected one tag for every word of sents")
    words, tags = (tuple(word for row in side for word in row) for side in sides)
    return _passage(words, tags, _items(text, "acts", source, f"{where}."), source, where)


def _sentences(sentences: Any, source: str, where: str) -> tuple[Passage | None, ...]:
    """The sentences of a text whose arguments are labelled; null where they are not."""
    if not isinstance(sentences, list):
        raise InputError(f"{source}: {where}: expected a list of sentences; convert it again")
    found: list[Passage | None] = []
    for k, sentence in enumerate(sentences):
        if sentence is None:
            found.append(None)
            continue
        here = f"{where}[{k}]"
        last, this, last_tags, this_tags = (
            _all_texts(_items(sentence, key, source, f"{here}."), source, f"{here}.{key}")
            for key in ("last", "this", "last_pos", "this_pos")
        )
        if len(last) != len(last_tags) or len(this) != len(this_tags):
            raise InputError(f"{source}: {here}: expected one tag for every word of last and this")
        acts = _items(sentence, "acts", source, f"{here}.")
        found.append(_passage(last + this, last_tags + this_tags, acts, source, here))
    return tuple(found)


def _passage(
    words: tuple[str, ...], tags: tuple[str, ...], acts: list[Any], source: str, where: str
) -> Passage:
    """Words with their checked actions."""
    if not words:
        raise InputError(f"{source}: {where}: expected at least one word, got none")
    actions = tuple(
        _action(act, len(words), source, f"{where}.acts[{k}]") for k, act in enumerate(acts)
    )
    if len({action.word for action in actions}) < len(actions):
        raise InputError(f"{source}: {where}.acts: expected one label for a word, got two")
    return Passage(words, tags, actions)


def _action(act: Any, num_words: int, source: str, where: str) -> Action:
    """One action; all its indices lie inside the text."""
    word, kind = (_entry(act, key, int, source, f"{where}.") for key in ("i", "t"))
    objects, rivals = (_items(act, key, source, f"{where}.") for key in ("o", "r"))
    if kind not in (1, 2, 3):
        raise InputError(f"{source}: {where}.t: expected 1, 2 or 3, got {kind}")
    _inside([word], 0, num_words, source, f"{where}.i")
    _inside(rivals, 0, num_words, source, f"{where}.r")
    if len(objects) != 2 or not all(isinstance(side, list) for side in objects):
        raise InputError(f"{source}: {where}.o: expected two lists of words")
    for side in objects:
        _inside(side, -1, num_words, source, f"{where}.o")
    if word in rivals or set(objects[0]) & set(objects[1]):
        raise InputError(f"{source}: {where}: expected words that exclude others, not themselves")
    return Action(word, kind, (tuple(objects[0]), tuple(objects[1])), tuple(rivals))


def _inside(indices: Sequence[Any], low: int, high: int, source: str, where: str) -> None:
    """Complain of the first index that is no whole number in low..high-1."""
    for index in indices:
        if not isinstance(index, int) or isinstance(index, bool) or not low <= index < high:
            raise InputError(
                f"{source}: {where}: expected a word index from {low} to {high - 1}, got {index!r}"
            )


def _folds(stored: Any, key: str, size: int, source: str) -> tuple[tuple[int, ...], ...]:
    """Five folds that together hold every index below `size` once."""
    folds = _items(stored, key, source, "folds.")
    if len(folds) != NUM_FOLDS or not all(isinstance(fold, list) for fold in folds):
        raise InputError(f"{source}: folds.{key}: expected {NUM_FOLDS} lists, got {len(folds)}")
    indices = [index for fold in folds for index in fold]
    whole = all(isinstance(index, int) for index in indices)
    if not whole or sorted(indices) != list(range(size)) or not all(folds):
        raise InputError(
            f"{source}: folds.{key}: expected a partition of 0..{size - 1} into {NUM_FOLDS} folds, got "
            f"{len(indices)} indices, {len(set(map(str, indices)))} of them distinct"
        )
    return tuple(tuple(fold) for fold in folds)
