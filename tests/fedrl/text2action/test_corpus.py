"""Reading labelled texts: facts of the three published corpora, samples, folds, cuts, and complaints about bad files."""

import copy
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.text2action.corpus import EXCLUSIVE, NONE, OPTIONAL, REQUIRED
from fedsuite.fedrl.text2action.labels import expert_selection, label_table
from fedsuite.fedrl.text2action.reader import parse_corpus, read_corpus
from tests.harness import changed

# texts, words, longest text, names, required, optional, exclusive, share of names %, of arguments %,
# argument samples, their mean and greatest length, vocabulary
FACTS = {
    "win2k": (154, 6927, 126, 1349, 1261, 77, 11, 19.47, 29.6, 1351, 19.8, 54, 768),
    "cooking": (116, 24284, 464, 2519, 2347, 134, 38, 10.37, 12.3, 2522, 28.1, 94, 2591),
    "wikihow": (150, 62576, 936, 4647, 3569, 713, 365, 7.43, 12.1, 4647, 30.8, 147, 6639),
}


def act(word: int, kind: int = 1, first: Any = (-1,), second: Any = (), rivals: Any = ()) -> dict:
    """An ACT of the schema."""
    return {"i": word, "t": kind, "o": [list(first), list(second)], "r": list(rivals)}


def small_document() -> dict[str, Any]:
    """Five texts "wash or dry it" / "open the box or bag", with both kinds of exclusion."""
    sents, pos = (
        [["Wash", "or", "dry", "it"], ["open", "box", "or", "bag"]],
        [["VB", "CC", "VB", "PRP"], ["VB", "NN", "CC", "NN"]],
    )
    names = [act(0, 3, rivals=[2]), act(2, 3, rivals=[0]), act(4, 2, [5], [7])]
    second = {
        "last": sents[0],
        "this": sents[1],
        "last_pos": pos[0],
        "this_pos": pos[1],
        "acts": [act(4, 2, [5], [7])],
    }
    first = {"last": [], "this": sents[0], "last_pos": [], "this_pos": pos[0], "acts": names[:2]}
    built = {
        "schema": "t2a-1",
        "domain": "small",
        "texts": [{"sents": sents, "pos": pos, "acts": names} for _ in range(5)],
        "arg": [[first, second] if k else [None, second] for k in range(5)],
        "folds": {
            "act5": [[k] for k in range(5)],
            "arg5": [[0], [1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]],
        },
    }
    return json.loads(json.dumps(built))  # nothing in it is shared


@pytest.fixture
def document() -> dict[str, Any]:
    return small_document()


@pytest.mark.slow
@pytest.mark.needs_shared
@pytest.mark.parametrize("name", FACTS)
def test_facts_of_the_published_corpora(shared: Path, name: str) -> None:
    corpus = read_corpus(
        changed(FedRLConfig(), corpus=name, data_dir=str(shared / "data" / "fedrl"))
    )
    texts = [text.whole for text in corpus.texts]
    names, arguments = corpus.samples("names", 10_000), corpus.samples("arguments", 10_000)
    words = sum(len(text.words) for text in texts)
    kinds = [kind for sample in names for kind in sample.kinds]
    objects = sum(
        len({o for a in text.actions for side in a.objects for o in side if o >= 0})
        for text in texts
    )
    lengths = [len(sample.words) for sample in arguments]
    found = (
        len(texts), words, max(len(s.words) for s in names), sum(k != NONE for k in kinds),
        kinds.count(REQUIRED), kinds.count(OPTIONAL), kinds.count(EXCLUSIVE),
        round(100 * sum(k != NONE for k in kinds) / words, 2), round(100 * objects / words, 1),
        len(arguments), round(sum(lengths) / len(lengths), 1), max(lengths),
        len({word.lower() for text in texts for word in text.words}),
    )  # fmt: skip
    assert found == FACTS[name]
    assert max(len(s.words) for s in corpus.samples("names")) == min(FACTS[name][2], 500)
    assert max(len(s.words) for s in corpus.samples("arguments")) == min(FACTS[name][11], 100)
    assert [len(f) for f in corpus.folds["names"]][1:4] == {
        "win2k": [31] * 3,
        "cooking": [23] * 3,
        "wikihow": [30] * 3,
    }[name]


def test_names_and_arguments_become_samples(document: dict[str, Any]) -> None:
    corpus = parse_corpus(document, "here")
    names, arguments = corpus.samples("names"), corpus.samples("arguments")
    assert names[0].kinds == (EXCLUSIVE, NONE, EXCLUSIVE, NONE, OPTIONAL, NONE, NONE, NONE)
    assert names[0].rivals == ((0, (2,)), (2, (0,))) and names[0].action == -1
    assert corpus.tag_ids() == {"PAD": 0, "VB": 1, "CC": 2, "PRP": 3, "NN": 4, "UNK": 5}
    assert names[0].pos_ids == (1, 2, 1, 3, 1, 4, 2, 4)
    assert len(arguments) == 13  # the null of the first text has none
    assert arguments[0].words == ("Wash", "or", "dry", "it", "open", "box", "or", "bag", "UNK")
    assert arguments[0].rivals == ((5, (7,)), (7, (5,))) and arguments[0].pos_ids[-1] == 5
    assert (arguments[0].action, arguments[0].neglected) == (4, (4,))
    assert arguments[1].kinds == (NONE, NONE, NONE, NONE, REQUIRED)  # its object is not in the text
    assert arguments[2].neglected == (0, 2) and arguments[2].action == 2
    document["texts"][0]["sents"][1][0] = "it"
    document["arg"][0][1]["acts"] = [act(4, 2, [0], [-1])]  # the first word of all, or none
    first = parse_corpus(document, "here").samples("arguments")[0]
    assert first.rivals == ((0, (8,)), (8, (0,))) and first.kinds[0] == first.kinds[8] == EXCLUSIVE


def test_what_all_parties_have_tells_which_arguments_are_asked_for(
    document: dict[str, Any],
) -> None:
    """Parties of two corpora whose texts are alike must not take them for one."""
    before = parse_corpus(copy.deepcopy(document), "here")
    document["arg"][1][0]["acts"] = document["arg"][1][0]["acts"][:1]
    document["folds"]["arg5"] = [[0], [1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    after = parse_corpus(document, "here")
    assert before.shared("names") == after.shared("names")
    before, after = (dict(zip("las", c.shared("arguments"), strict=True)) for c in (before, after))
    assert before["l"] == after["l"] and before["a"] != after["a"]


def test_longer_samples_are_cut_with_their_labels(document: dict[str, Any]) -> None:
    corpus = parse_corpus(document, "here")
    (name, *_), (argument, *_) = corpus.samples("names", 2), corpus.samples("arguments", 6)
    assert name.kinds == (EXCLUSIVE, NONE) and name.rivals == ((0, ()),)
    assert argument.kinds[5] == EXCLUSIVE and argument.rivals == ((5, ()),)
    table = label_table(corpus.samples("names", 2))
    assert table.longest == 2 and table.last_rival.tolist() == [-1] * 5


def test_folds_are_split_in_two_ways(document: dict[str, Any]) -> None:
    corpus = parse_corpus(document, "here")
    splits = {k: v.tolist() for k, v in corpus.splits("names", 4, "test-fold").items()}
    assert splits == {"train": [1, 2, 3], "valid": [0], "test": [4]}
    splits = {k: v.tolist() for k, v in corpus.splits("arguments", 1, "validation").items()}
    assert splits == {"train": [0, *range(4, 13)], "valid": [1, 2, 3], "test": [1, 2, 3]}


def test_an_expert_selects_the_first_of_what_excludes_each_other(document: dict[str, Any]) -> None:
    sample = parse_corpus(document, "here").samples("names")[0]
    assert np.flatnonzero(expert_selection(sample)).tolist() == [0, 4]
    kinds = (EXCLUSIVE, NONE, REQUIRED, *sample.kinds[3:])
    left = replace(sample, kinds=kinds, rivals=((0, (2,)),))
    assert np.flatnonzero(expert_selection(left)).tolist() == [2, 4]


def test_a_written_corpus_is_read_back(document: dict[str, Any], tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(document).encode())
    (tmp_path / "t2a_win2k.json.gz").write_bytes(packed)
    read = read_corpus(changed(FedRLConfig(), corpus="win2k", data_dir=str(tmp_path)))
    assert read == parse_corpus(document, "elsewhere")


def set_at(document: dict[str, Any], path: str, value: Any) -> None:
    """Set document[a][b]... for a path "a.b.0"."""
    *head, last = (int(p) if p.isdigit() else p for p in path.split("."))
    target: Any = document
    for part in head:
        target = target[part]
    target[last] = value


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("schema", "t2a-9", 'schema: expected "t2a-1", got \'t2a-9\''),
        ("texts", {}, "texts: expected a list, got dict"),
        ("texts", [], "arg: expected one entry for each of the 0 texts"),
        ("texts.1.sents.0.2", 5, r"texts\[1\].sents\[0\]: expected a list of texts"),
        ("texts.1.pos.0", ["VB"], r"texts\[1\].pos: expected one tag for every word"),
        ("texts.2.acts.1.i", 8, r"texts\[2\].acts\[1\].i: expected a word index from 0 to 7, got 8"),
        ("texts.2.acts.1.t", 4, r"texts\[2\].acts\[1\].t: expected 1, 2 or 3, got 4"),
        ("texts.2.acts.1.t", None, r"texts\[2\].acts\[1\].t: expected a whole number, got nothing"),
        ("texts.2.acts.1.o", [[1]], r"acts\[1\].o: expected two lists"),
        ("texts.2.acts.1.r", [2], "not themselves"),
        ("texts.2.acts.1.i", 0, "expected one label for a word, got two|not themselves"),
        ("arg.3.1.acts.0.o", [[-2], []], r"arg\[3\]\[1\].acts\[0\].o: expected a word index from -1"),
        ("arg.3", 3, r"arg\[3\]: expected a list of sentences"),
        ("arg.3.1.last", "x", r"arg\[3\]\[1\].last: expected a list"),
        ("folds", [], "folds: expected a table, got list"),
        ("folds.act5", [[0], [1], [2], [3], [3]], "folds.act5: expected a partition of 0..4"),
        ("folds.arg5", [[0]], "folds.arg5: expected 5 lists, got 1"),
    ],
)  # fmt: skip
def test_bad_entries_are_named(
    document: dict[str, Any], path: str, value: Any, complaint: str
) -> None:
    broken = copy.deepcopy(document)
    set_at(broken, path, value)
    with pytest.raises(InputError, match=complaint) as caught:
        parse_corpus(broken, "corpus.json.gz")
    assert str(caught.value).startswith("corpus.json.gz: ") and "\n" not in str(caught.value)


def test_bad_files_are_named(tmp_path: Path) -> None:
    config = changed(FedRLConfig(), corpus="cooking", data_dir=str(tmp_path))
    file = tmp_path / "t2a_cooking.json.gz"
    with pytest.raises(InputError, match=r"t2a_cooking\.json\.gz: no such file"):
        read_corpus(config)
    whole = gzip.compress(json.dumps({"schema": "t2a-1", "texts": list(range(1000))}).encode())
    for data in (
        b"no gzip",
        whole[: len(whole) // 2],
        gzip.compress(b'{"schema": '),
        gzip.compress(b"\xff\xfe"),
    ):
        file.write_bytes(data)
        with pytest.raises(InputError, match="expected gzip-compressed JSON, got a damaged"):
            read_corpus(config)
    file.write_bytes(whole)
    with pytest.raises(
        InputError, match=r"t2a_cooking\.json\.gz: arg: expected a list, got nothing"
    ):
        read_corpus(config)
