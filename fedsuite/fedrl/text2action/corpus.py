"""Texts with labelled actions, and the samples that Text2Action reads word by word.

A *text* is a sequence of words with Penn part-of-speech tags. Some words are *action names*; each action has
objects, its *arguments* (Feng et al. 2018, EASDRL). A *sample* is what one episode reads: for the task "names" a
whole text; for "arguments" one action of one sentence, as previous sentence + this sentence + one UNK token that stands
for arguments that the text does not name. Every word of a sample is neglected or selected.

Kinds of words: NONE; REQUIRED (must be selected); OPTIONAL (may be); EXCLUSIVE (it or its rivals). Rivals of an action
name are the names that it excludes; rivals of an argument are the words of the other alternative ("A or B"). A sample
longer than N_w words (`max_words`) is cut, for reading and for scoring alike.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from fedsuite.fedrl.worlds import Split

NONE, REQUIRED, OPTIONAL, EXCLUSIVE = range(4)
PAD, UNKNOWN = "PAD", "UNK"
UNTOLD = ""
NUM_FOLDS = 5
MAX_WORDS = {"names": 500, "arguments": 100}  # N_w of the published code


@dataclass(frozen=True)
class Action:
    """One labelled action: its word, kind, two lists of objects (the second is empty unless they exclude each other;
    -1 = not in the text) and the words of the actions that exclude it."""

    word: int
    kind: int
    objects: tuple[tuple[int, ...], tuple[int, ...]]
    rivals: tuple[int, ...]


@dataclass(frozen=True)
class Passage:
    """Words [n], their tags [n], and the actions among them by index."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Text:
    """A whole text, and one passage (previous + this sentence) for each sentence whose arguments are labelled."""

    whole: Passage
    sentences: tuple[Passage | None, ...]


@dataclass(frozen=True)
class Sample:
    """What one episode reads, each [n]: words, pos_ids, kinds. rivals: (word, its rivals) of every exclusive word.

    action: the action whose arguments are asked for, -1 for names. neglected: words that count as neglected whatever
    was chosen, the sentence's action names (arguments only).
    """

    words: tuple[str, ...]
    pos_ids: tuple[int, ...]
    kinds: tuple[int, ...]
    rivals: tuple[tuple[int, tuple[int, ...]], ...]
    action: int = -1
    neglected: tuple[int, ...] = ()


@dataclass(frozen=True)
class Owner:
    """Whose file a party's own texts are (own_texts.py), and for which task; known: all tags by id (alpha), or words of
    passages that no text has (beta)."""

    party: str
    task: str
    known: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Corpus:
    """Texts and their folds; folds["names"] hold indices of texts, folds["arguments"] of samples. digest: SHA-256.

    own: None = whole. In a party's own file each word, or each tag, that it does not tell is UNTOLD.
    """

    name: str
    digest: str
    texts: tuple[Text, ...]
    folds: Mapping[str, tuple[tuple[int, ...], ...]]
    own: Owner | None = None

    def tag_ids(self) -> dict[str, int]:
        """Tag -> id: PAD is 0, then the order of first appearance in texts, then in passages; last the UNK token's."""
        if self.own and self.own.party == "alpha":
            return {tag: k for k, tag in enumerate(self.own.known)}
        ids = {PAD: 0}
        texts = (tag for text in self.texts for tag in text.whole.tags)
        passages = (tag for text in self.texts for p in text.sentences if p for tag in p.tags)
        for tag in (*texts, *passages, UNKNOWN):
            ids.setdefault(tag, len(ids))
        return ids

    def samples(self, task: str, max_words: int = 0) -> tuple[Sample, ...]:
        """All samples of a task ("names" or "arguments"), in file order; max_words 0 = the published N_w."""
        limit, ids = max_words or MAX_WORDS[task], self.tag_ids()
        if task == "names":
            return tuple(_name_sample(text.whole, ids, limit) for text in self.texts)
        return tuple(
            _argument_sample(passage, action, ids, limit)
            for text in self.texts
            for passage in text.sentences
            if passage is not None
            for action in passage.actions
        )

    def vocabulary(self) -> list[str]:
        """Words of texts and passages, once each, as they are written."""
        passages = [p.words for text in self.texts for p in text.sentences if p is not None]
        known = self.own.known if self.own and self.own.party == "beta" else ()
        texts = [text.whole.words for text in self.texts]
        return list(dict.fromkeys(word for words in (*texts, *passages, known) for word in words))

    def shared(self, task: str) -> object:
        """What every party has of a task, as JSON values: how long texts are, where the actions stand whose arguments are
        asked for, and the folds."""
        lengths = [len(text.whole.words) for text in self.texts]
        asked = [
            [
                None if p is None else [len(p.words), [a.word for a in p.actions]]
                for p in t.sentences
            ]
            for t in self.texts
        ]
        return [lengths, asked if task == "arguments" else [], self.folds[task]]

    def splits(self, task: str, fold: int, selection: str) -> dict[Split, np.ndarray]:
        """Samples [n] of each split; selection as in FedRLConfig: "validation" tests on the fold that chooses the round."""
        held_out = {fold} if selection == "validation" else {fold, (fold + 1) % NUM_FOLDS}
        valid = fold if selection == "validation" else (fold + 1) % NUM_FOLDS
        folds = [np.array(sorted(f), np.int64) for f in self.folds[task]]
        train = np.concatenate([folds[k] for k in range(NUM_FOLDS) if k not in held_out])
        return {"train": np.sort(train), "valid": folds[valid], "test": folds[fold]}


def _name_sample(text: Passage, ids: Mapping[str, int], limit: int) -> Sample:
    """The whole text; its action names are to be selected."""
    kinds = [NONE] * len(text.words)
    for action in text.actions:
        kinds[action.word] = action.kind
    rivals = {a.word: a.rivals for a in text.actions if a.kind == EXCLUSIVE}
    return _cut(text.words, [ids[t] for t in text.tags], kinds, rivals, limit)


def _argument_sample(
    passage: Passage, action: Action, ids: Mapping[str, int], limit: int
) -> Sample:
    """The passage and an UNK token; the objects of `action` are to be selected, UNK for those not in the text."""
    words = (*passage.words, UNKNOWN)
    first, second = (
        tuple(o if o >= 0 else len(words) - 1 for o in alternative)
        for alternative in action.objects
    )
    kinds = [NONE] * len(words)
    for word in first + second:
        kinds[word] = EXCLUSIVE if second else REQUIRED
    rivals = {**dict.fromkeys(first, second), **dict.fromkeys(second, first)} if second else {}
    names = [a.word for a in passage.actions]
    tags = [ids[t] for t in (*passage.tags, UNKNOWN)]
    return _cut(words, tags, kinds, rivals, limit, action.word, names)


def _cut(
    words: tuple[str, ...],
    pos_ids: list[int],
    kinds: list[int],
    rivals: Mapping[int, tuple[int, ...]],
    limit: int,
    action: int = -1,
    neglected: Iterable[int] = (),
) -> Sample:
    """The first `limit` words; whatever lies beyond is as if it were not there (the action's place is kept)."""
    kept = {
        word: tuple(sorted(r for r in others if r < limit))
        for word, others in sorted(rivals.items())
        if word < limit
    }
    return Sample(
        words[:limit],
        tuple(pos_ids[:limit]),
        tuple(kinds[:limit]),
        tuple(kept.items()),
        action,
        tuple(w for w in neglected if w < limit),
    )
