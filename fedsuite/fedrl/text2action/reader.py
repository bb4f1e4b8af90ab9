"""Reading a corpus of labelled texts, and saying what is wrong with one.

Schema "t2a-1", gzip-compressed JSON: `texts`: [{sents: [[word]], pos: [[tag]], acts: [ACT]}]; `arg`: per text
[SENT | null]; `folds`: {act5: 5 lists of texts, arg5: 5 lists of argument samples}. ACT = {i: word, t: 1 required | 2
optional | 3 exclusive, o: [objects, objects of the other alternative], r: words of actions that exclude it}, with
indices into the text's words; SENT = {last, this, last_pos, this_pos, acts} with indices into last + this, and -1 for an
object that is not in the text. Argument samples are counted over (text, sentence, act), nulls skipped. A party's own file
(own_texts.py) has the same name.
"""

import gzip
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.text2action.corpus import Corpus, Passage, Text
from fedsuite.fedrl.text2action.document import Part, action_of, digest_of, folds_of
from fedsuite.fedrl.text2action.generated import generate_corpus
from fedsuite.fedrl.text2action.own_texts import OWN_SCHEMA, parse_own
from fedsuite.storage.files import check_readable, parsed_json

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
        return parse_corpus(generate_corpus(config.data_seed), "generated corpus")
    return read_file(path)


def read_file(path: Path) -> Corpus:
    """The corpus of one file, whole or a party's own. Raises InputError."""
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
    whole = Part(document, source, "")
    schema = document.get("schema") if isinstance(document, dict) else type(document).__name__
    if schema == OWN_SCHEMA:
        return parse_own(whole)
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
    folds = {task: folds_of(stored, key, sizes[task]) for task, key in FOLD_KEYS.items()}
    return Corpus(str(document.get("domain", source)), digest_of(document), read, folds)


def _text(text: Part) -> Passage:
    words, tags = ([row.texts() for row in text.items(key)] for key in ("sents", "pos"))
    if [len(row) for row in words] != [len(row) for row in tags]:
        raise text.entry("pos", list).wrong("expected one tag for every word of sents")
    return _passage(text, tuple(chain.from_iterable(words)), tuple(chain.from_iterable(tags)))


def _sentences(sentences: Part) -> tuple[Passage | None, ...]:
    """The sentences of a text whose arguments are labelled; null where they are not."""
    if not isinstance(sentences.value, list):
        raise sentences.wrong("expected a list of sentences; convert it again")
    return tuple(None if s.value is None else _sentence(s) for s in sentences.each())


def _sentence(sentence: Part) -> Passage:
    last, this, last_tags, this_tags = (
        sentence.entry(key, list).texts() for key in ("last", "this", "last_pos", "this_pos")
    )
    if len(last) != len(last_tags) or len(this) != len(this_tags):
        raise sentence.wrong("expected one tag for every word of last and this")
    return _passage(sentence, last + this, last_tags + this_tags)


def _passage(part: Part, words: tuple[str, ...], tags: tuple[str, ...]) -> Passage:
    """Words with their checked actions."""
    acts = part.entry("acts", list)
    if not words:
        raise part.wrong("expected at least one word, got none")
    actions = tuple(action_of(act, len(words)) for act in acts.each())
    if len({action.word for action in actions}) < len(actions):
        raise acts.wrong("expected one label for a word, got two")
    return Passage(words, tags, actions)
