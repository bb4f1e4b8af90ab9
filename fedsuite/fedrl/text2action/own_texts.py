"""A file of texts for one party of one task: alpha has tags and labels, beta has words.

Gzip-compressed JSON, schema "t2a-own-1": party (alpha or beta); task (names or arguments), for which alone the file is
good; domain; folds, 5 lists; known; `texts`: [{tags | words, acts}]; for arguments also `arg`: per text
[null | {tags | words, acts}].

alpha's acts are those of reader.py, of whatever its task asks for. beta gets no label: for names no acts, for arguments the
`i` alone of each action whose arguments are asked for, since how far a word is from it is what beta sees (views.py).
known: alpha's are all tags by their ids, so that its embedding is that of the whole corpus; beta's are the words of passages
that no text has, which vectors are looked up for. Word vectors are trained on texts alone, so beta makes the same.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsuite.fedrl.text2action.corpus import (
    NONE,
    UNTOLD,
    Action,
    Corpus,
    Owner,
    Passage,
    Text,
)
from fedsuite.fedrl.text2action.document import Part, action_of, digest_of, folds_of
from fedsuite.storage.files import write_atomically

OWN_SCHEMA = "t2a-own-1"
PARTIES, TASKS = ("alpha", "beta"), ("names", "arguments")
TOLD = {"alpha": "tags", "beta": "words"}


def write_own_texts(path: Path, corpus: Corpus, party: str, task: str) -> None:
    """Write what `party` may have of a whole corpus; equal corpora make equal bytes."""
    data = json.dumps(own_document(corpus, party, task), ensure_ascii=False).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, gzip.compress(data, mtime=0))


def own_document(corpus: Corpus, party: str, task: str) -> dict[str, Any]:
    """What `party` may have of a whole corpus, as JSON values."""
    asked = task == "arguments"
    of_texts = {word for text in corpus.texts for word in text.whole.words}
    others = [word for word in corpus.vocabulary() if word not in of_texts]
    texts = [
        _told(text.whole, party, labels=not asked and party == "alpha") for text in corpus.texts
    ]
    passages = [
        [None if p is None else _told(p, party, labels=True) for p in text.sentences]
        for text in corpus.texts
    ]
    return {
        "schema": OWN_SCHEMA,
        "party": party,
        "task": task,
        "domain": corpus.name,
        "folds": corpus.folds[task],
        "known": list(corpus.tag_ids()) if party == "alpha" else others,
        "texts": texts,
        **({"arg": passages} if asked else {}),
    }


def _told(passage: Passage, party: str, labels: bool) -> dict[str, Any]:
    """labels: its actions, in full for alpha, by their places for beta."""
    row = passage.tags if party == "alpha" else passage.words
    acts = [_entry(action, party) for action in passage.actions] if labels else []
    return {TOLD[party]: row, "acts": acts}


def _entry(action: Action, party: str) -> dict[str, Any]:
    if party == "beta":
        return {"i": action.word}
    return {"i": action.word, "t": action.kind, "o": action.objects, "r": action.rivals}


# --- reading --------------------------------------------------------------------------------------


def parse_own(whole: Part) -> Corpus:
    """Check such a document and turn it into a corpus. Raises InputError."""
    document, source = whole.value, whole.source
    party, task = (_chosen(whole, k, of) for k, of in (("party", PARTIES), ("task", TASKS)))
    texts = [_passage(text, party) for text in whole.items("texts")]
    if not texts:
        raise whole.entry("texts", list).wrong("expected at least one text, got none")
    rows: list[tuple[Passage | None, ...]] = [()] * len(texts)
    if task == "arguments":
        rows = [_sentences(part, party) for part in whole.items("arg")]
    if len(rows) != len(texts):
        raise whole.entry("arg", list).wrong(f"expected {len(texts)} entries, got {len(rows)}")
    size = (
        sum(len(p.actions) for row in rows for p in row if p) if task == "arguments" else len(texts)
    )
    owner = Owner(party, task, whole.entry("known", list).texts(), source)
    _check_known(whole, owner, texts, rows)
    read = tuple(Text(text, row) for text, row in zip(texts, rows, strict=True))
    name = str(document.get("domain", source))
    return Corpus(name, digest_of(document), read, {task: folds_of(whole, "folds", size)}, owner)


def _chosen(whole: Part, key: str, values: Sequence[str]) -> str:
    if (found := whole.value.get(key)) not in values:
        raise whole.wrong(
            f"{key}: expected {' or '.join(values)}, got {str(found)[:20]!r}; split it again"
        )
    return str(found)


def _sentences(part: Part, party: str) -> tuple[Passage | None, ...]:
    if not isinstance(part.value, list):
        raise part.wrong("expected a list of sentences; split it again")
    return tuple(None if p.value is None else _passage(p, party) for p in part.each())


def _passage(part: Part, party: str) -> Passage:
    row = part.entry(TOLD[party], list).texts()
    if not row or UNTOLD in row:
        raise part.wrong(f"expected {TOLD[party]}, none of them empty; split it again")
    untold = (UNTOLD,) * len(row)
    actions = tuple(_action(act, party, len(row)) for act in part.items("acts"))
    if len({action.word for action in actions}) < len(actions):
        raise part.entry("acts", list).wrong("expected one label for a word, got two")
    return Passage(untold, row, actions) if party == "alpha" else Passage(row, untold, actions)


def _action(act: Part, party: str, num_words: int) -> Action:
    if party == "alpha":
        return action_of(act, num_words)
    word = act.entry("i", int)
    return Action(word.indices([word.value], 0, num_words)[0], NONE, ((), ()), ())


def _check_known(
    whole: Part, owner: Owner, texts: Sequence[Passage], rows: Sequence[Sequence[Passage | None]]
) -> None:
    """alpha's list of tags must have every tag once."""
    if owner.party != "alpha":
        return
    used = {tag for p in (*texts, *(p for row in rows for p in row if p)) for tag in p.tags}
    if len(set(owner.known)) < len(owner.known) or used - set(owner.known):
        raise whole.entry("known", list).wrong("expected every tag once; split it again")
