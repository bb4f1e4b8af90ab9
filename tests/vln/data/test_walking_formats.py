"""Instructions of R2R's relatives, and copies of R2R by other programs, as training sees them.

Files are written here, in houses made by hand; tests that are marked `needs_shared` read some with the fields of the
released ones, and what stands in expected.json beside them.
"""

import gzip
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.storage.progress import in_lines
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.annotations import Form, read_annotations
from fedsuite.vln.data.bert_ids import read_pieces, text_of
from fedsuite.vln.data.dataset import Sample, load_samples, load_vocabulary
from fedsuite.vln.data.graph import load_graph
from fedsuite.vln.data.prepare import prepare_houses
from fedsuite.vln.data.roster import make_roster
from fedsuite.vln.data.sources import open_sources, prepare_sources
from fedsuite.vln.data.split_files import R2R, Reading
from fedsuite.vln.data.walking_formats import parted
from tests.harness import changed

SPLITS = ("train", "val_seen", "val_unseen")


def refusal(work: Callable[..., object], *arguments: object, **more: object) -> str:
    with pytest.raises(InputError) as error:
        work(*arguments, **more)
    assert "\n" not in str(error.value)
    return str(error.value)


def prepared(data: Path, reading: Reading = R2R, said: list[str] | None = None) -> Path:
    out = data.parent / "houses"
    shutil.rmtree(out, ignore_errors=True)
    told = in_lines((said if said is not None else []).append)
    prepare_houses(data, out, 2, told, reading)
    return out


def samples_of(data: Path, out: Path, scan: str) -> dict[str, tuple[Sample, ...]]:
    graph = load_graph(data / "connectivity", scan)
    return load_samples(out, graph, 80, load_vocabulary(out))


def items_of(data: Path, split: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((data / f"annotations/R2R_{split}.json").read_text())
    return found


def rewrite(data: Path, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Every split as `name` (with {} for the split) in place of R2R's file."""
    for split in SPLITS:
        content = change(items_of(data, split))
        (data / "annotations" / f"R2R_{split}.json").unlink()
        file = data / "annotations" / name.format(split)
        text = json.dumps(content)
        if file.suffix == ".jsonl":
            assert isinstance(content, list)
            text = "".join(json.dumps(line) + "\n" for line in content)
        file.write_text(text)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """As long as bert-base-uncased's, with the words of the handmade houses from 1000 on."""
    words = [f"[unused{n}]" for n in range(30_522)]
    words[0], words[100], words[101], words[102] = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
    own = [
        "walk",
        "turn",
        "left",
        "right",
        "past",
        "the",
        "door",
        "stop",
        "stairs",
        "kit",
        "##chen",
        ".",
    ]
    words[1000 : 1000 + len(own)] = own
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join(words) + "\n", encoding="utf-8")
    return file


def encoded(text: str, pieces: tuple[str, ...]) -> list[int]:
    known = {word: number for number, word in enumerate(pieces)}
    words = re.findall(r"\w+|[^\w\s]", text.lower().replace("kitchen", "kit __chen"))
    return [101, *(known[w.replace("__", "##")] for w in words), 102]


# --- R2R as other programs have it --------------------------------------------------------------


def test_copies_with_token_ids_are_read_as_r2r(data_dir: Path) -> None:
    plain = {f.name: f.read_bytes() for f in sorted(prepared(data_dir).rglob("*.json"))}
    rewrite(
        data_dir,
        "R2R_{}_enc.json",
        lambda items: [{**i, "instr_encodings": [[101, 2175, 102]] * 3} for i in items],
    )
    assert {f.name: f.read_bytes() for f in sorted(prepared(data_dir).rglob("*.json"))} == plain


def test_a_copy_beside_the_plain_file_must_be_of_the_same_paths(data_dir: Path) -> None:
    items = items_of(data_dir, "train")
    copy = data_dir / "annotations" / "R2R_train_enc.json"
    copy.write_text(json.dumps(items))
    prepared(data_dir)
    copy.write_text(json.dumps(items[1:]))
    message = refusal(prepared, data_dir)
    gone = items[0]["path_id"]
    assert message.startswith(f"{copy}: of other paths than R2R_train.json (path_id {gone} is in")
    assert message.endswith("so move the other one away")


def lines_of(items: list[dict[str, Any]], pieces: tuple[str, ...]) -> list[dict[str, Any]]:
    """An instruction a line, as DUET's pretraining files have it."""
    return [
        {k: i[k] for k in ("scan", "path", "heading", "path_id")}
        | {"instr_id": f"{i['path_id']}_{k}", "instr_encoding": encoded(text, pieces)}
        for i in items
        for k, text in enumerate(i["instructions"])
    ]


def test_lines_of_ids_become_texts_again(data_dir: Path, vocabulary: Path) -> None:
    plain = samples_of(data_dir, prepared(data_dir), "oak")
    pieces = read_pieces(vocabulary)
    rewrite(data_dir, "R2R_{}_enc.jsonl", lambda items: lines_of(items, pieces))
    message = refusal(prepared, data_dir)
    assert "line 1 holds token ids (instr_encodings) without instructions" in message
    reading = Reading(bert_vocabulary=str(vocabulary))
    decoded = samples_of(data_dir, prepared(data_dir, reading), "oak")
    for split, own in plain.items():
        assert [s.instr_id for s in decoded[split]] == [s.instr_id for s in own]
        assert [s.path for s in decoded[split]] == [s.path for s in own]
        for there, here in zip(decoded[split], own, strict=True):
            assert np.array_equal(there.tokens, here.tokens)


def test_what_is_no_vocabulary_of_these_ids(data_dir: Path, vocabulary: Path) -> None:
    pieces = read_pieces(vocabulary)
    assert text_of([101, 1009, 1010, 1011, 102, 0, 0], pieces) == "kitchen ."
    rewrite(data_dir, "R2R_{}_enc.jsonl", lambda items: lines_of(items, pieces))
    lines = vocabulary.read_text(encoding="utf-8").split("\n")
    vocabulary.write_text("\n".join(lines[:1002]), encoding="utf-8")
    reading = Reading(bert_vocabulary=str(vocabulary))
    message = refusal(prepared, data_dir, reading)
    assert "is not among the 1002 word pieces; data.bert-vocabulary must be" in message
    vocabulary.write_text("\n".join(lines[1:]), encoding="utf-8")
    assert "(line 1 is not [PAD])" in refusal(prepared, data_dir, reading)


def test_lines_where_a_list_is_expected(data_dir: Path) -> None:
    file = data_dir / "annotations" / "R2R_train.json"
    items = items_of(data_dir, "train")
    file.write_text("".join(json.dumps(i) + "\n" for i in items))
    assert refusal(prepared, data_dir).startswith(
        f"{file}: holds an instruction a line, not one list; name it R2R_train_enc.jsonl, or in data.augmented"
    )


def test_a_split_that_is_none_of_ours_is_left_aside(data_dir: Path) -> None:
    aside = data_dir / "annotations" / "R2R_val_train_seen_enc.json"
    aside.write_text("[]")
    said: list[str] = []
    prepared(data_dir, R2R, said)
    assert f"{aside}: left aside, for its paths are training paths" in said


# --- generated instructions ---------------------------------------------------------------------


def settings(data: Path, **more: object) -> FedVLNConfig:
    return changed(
        FedVLNConfig(), data_dir=str(data), features=str(data / "features.tsv"), min_word_count=2,
        cache_dir=str(data.parent / "cache"), **more,
    )  # fmt: skip


def test_generated_instructions_are_for_training_alone(data_dir: Path, vocabulary: Path) -> None:
    """Files of both kinds; words, validation and annotated paths stay as they are."""
    annotations = data_dir / "annotations"
    annotated = items_of(data_dir, "train")
    (annotations / "pretrain_map").mkdir()
    more = {**annotated[-1], "path_id": "hm3d_7", "instructions": ["walk walk unheard unheard."]}
    (annotations / "R2R_scalevln_ft_aug_enc.json").write_text(json.dumps([more]))
    lines = lines_of(annotated[:2], read_pieces(vocabulary))
    file = annotations / "pretrain_map" / "R2R_aug_enc.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = "R2R_scalevln_ft_aug_enc.json, pretrain_map/R2R_aug_enc.jsonl"
    plain = prepare_sources(settings(data_dir))
    config = settings(data_dir, augmented=names, bert_vocabulary=str(vocabulary))
    said: list[str] = []
    both = prepare_sources(config, in_lines(said.append))
    assert both.houses_dir != plain.houses_dir
    text = vocabulary.read_text(encoding="utf-8").replace("[unused5]", "five")
    vocabulary.write_text(text, encoding="utf-8")
    assert prepare_sources(config).houses_dir != both.houses_dir  # words are made of these pieces
    assert f"{file}: {len(lines)} generated instructions are trained on as well" in said
    assert load_vocabulary(both.houses_dir).words == load_vocabulary(plain.houses_dir).words
    for scan, counts in plain.manifest["samples"].items():
        added = sum(line["scan"] == scan for line in lines) + (scan == more["scan"])
        assert both.manifest["samples"][scan] == {**counts, "train": counts["train"] + added}
    scan = more["scan"]
    here, there = (samples_of(data_dir, s.houses_dir, scan) for s in (plain, both))
    assert [s.instr_id for s in there["train"][: len(here["train"])]] == [
        s.instr_id for s in here["train"]
    ]
    assert "hm3d_7_0" in [s.instr_id for s in there["train"]]
    total = sum(m.examples for m in make_roster(config, both).members)
    assert total == sum(len(i["instructions"]) for i in annotated) + len(lines) + 1


def test_generated_files_that_do_not_fit(data_dir: Path) -> None:
    message = refusal(prepare_sources, settings(data_dir, augmented="gone.json"))
    assert message.startswith(f"data.augmented: {data_dir / 'annotations' / 'gone.json'} is no fil")
    odd = {**items_of(data_dir, "train")[0], "path": ["oak-0", "nowhere"]}
    (data_dir / "annotations" / "aug.json").write_text(json.dumps([odd]))
    message = refusal(prepare_sources, settings(data_dir, augmented="aug.json"))
    assert message.startswith(f"{data_dir / 'annotations' / 'aug.json'}: path_id")


# --- R4R ----------------------------------------------------------------------------------------

FIRST = ("Walk straight, then turn left.", "go past the table and stop", "Turn left at the door!")
SECOND = ("Go back to the door.", "go to the wall; stop.", "Don't turn.")


@pytest.mark.parametrize("first", [FIRST, FIRST[:2], ("Stop.", "Walk. Stop.", "Now walk. Stop.")])
@pytest.mark.parametrize("second", [SECOND, (*SECOND, "Walk.")])
@pytest.mark.parametrize("blank", ["", " "])
def test_texts_of_two_paths_are_parted(first, second, blank) -> None:
    joined = [a + blank + b for a in first for b in second]
    found = parted(joined)
    assert found == [f"{a} {b}" for a in first for b in second]


def test_texts_that_tell_nothing_stay() -> None:
    assert parted(["turn left"]) == ["turn left"]
    assert parted(["a b", "c d", "e f", "g h"]) == ["a b", "c d", "e f", "g h"]


def as_r4r(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every path and back again."""
    return [
        {**i, "path": [*i["path"], *i["path"][-2::-1]], "path_id": n, "first_path_id": 1, "second_path_id": 2,
         "shortest_path": i["path"][:1], "shortest_path_distance": 0.0,
         "instructions": [a + b for a in FIRST for b in SECOND]}
        for n, i in enumerate(items)
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["R4R_{}.json", "R4R_{}_enc.json"])
def test_r4r_is_followed(data_dir: Path, name: str) -> None:
    before = items_of(data_dir, "train")
    rewrite(data_dir, name, as_r4r)
    said: list[str] = []
    out = prepared(data_dir, Reading("r4r"), said)
    assert not [line for line in said if "shortest" in line]
    own = samples_of(data_dir, out, "oak")["train"]
    assert all(s.follows for s in own) and own[0].path[0] == own[0].path[-1]
    assert len(own[0].path) == 2 * len(before[0]["path"]) - 1
    assert own[0].text == f"{FIRST[0]} {SECOND[0]}" and own[8].instr_id == "0_8"


def test_r4r_and_r2r_are_not_taken_for_one_another(data_dir: Path) -> None:
    (data_dir / "annotations" / "R4R_train.json").write_text("[]")
    items = items_of(data_dir, "train")
    file = data_dir / "annotations" / "R4R_val_seen.json"
    file.write_text(json.dumps(items))
    message = refusal(read_annotations, file, Form("r4r"))
    assert message.startswith(f"{file}: item 1 is no item of R4R (it has no first_path_id)")


# --- REVERIE and NDH ----------------------------------------------------------------------------


def test_reverie_is_read_as_instructions(data_dir: Path) -> None:
    """Two objects of one path are two items."""

    def change(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {**i, "ix": n, "objId": o, "id": f"{i['path_id']}_{o}", "instructions": ["Clean it.", "Go."],
             "instructions_l": i["instructions"]}
            for n, i in enumerate(items)
            for o in (12, 30)
        ]  # fmt: skip

    paths = [i["path_id"] for i in items_of(data_dir, "train") if i["scan"] == "oak"]
    rewrite(data_dir, "REVERIE_{}.json", change)
    said: list[str] = []
    own = samples_of(data_dir, prepared(data_dir, Reading("reverie"), said), "oak")["train"]
    assert [s.instr_id for s in own[:4]] == [
        f"{paths[0]}_{o}_{k}" for o in (12, 30) for k in (0, 1)
    ]
    assert own[0].text == "Clean it." and len(own) == 4 * len(paths)
    assert any("success at the annotated viewpoint" in line for line in said)


def as_ndh(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The player goes back one step at the end; the last two places are the region."""
    return [
        {"inst_idx": n, "scan": i["scan"], "target": "chair", "nav_history": [], "end_panos": i["path"][-2:],
         "start_pano": {"heading": i["heading"], "elevation": 0.0, "pano": i["path"][0]},
         "dialog_history": [{"nav_idx": k, "role": "oracle", "message": m} for k, m in enumerate(["left?", "yes"])][: n % 3],
         "planner_path": i["path"], "player_path": [*i["path"], i["path"][-2]]}
        for n, i in enumerate(items)
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["planner", "player"])
def test_dialogues_are_read_as_instructions(data_dir: Path, way: str) -> None:
    items = as_ndh(items_of(data_dir, "train"))
    rewrite(data_dir, "NDH_{}.json", as_ndh)
    out = prepared(data_dir, Reading("ndh", ndh_path=way))
    own = samples_of(data_dir, out, "oak")["train"]
    index = load_graph(data_dir / "connectivity", "oak").index
    for sample, item in zip(own, (i for i in items if i["scan"] == "oak"), strict=True):
        assert sample.path == tuple(index[v] for v in item[f"{way}_path"])
        assert sample.goals == tuple(index[v] for v in item["end_panos"])
        assert sample.follows == (way == "player")
        said = [turn["message"] for turn in item["dialog_history"]]
        assert sample.text == (" ".join(["chair .", *said]) if said else "chair")
        assert sample.instr_id == f"{item['inst_idx']}_0"


def test_a_dialogue_must_begin_where_its_path_does(data_dir: Path) -> None:
    rewrite(data_dir, "NDH_{}.json", as_ndh)
    file = data_dir / "annotations" / "NDH_train.json"
    items = json.loads(file.read_text())
    items[2]["start_pano"]["pano"] = "elsewhere"
    file.write_text(json.dumps(items))
    message = refusal(prepared, data_dir, Reading("ndh"))
    assert message.startswith(
        f"{file}: not annotations of CVDN (NDH) (item 3: ValueError: planner_path starts at"
    )


# --- Habitat ------------------------------------------------------------------------------------


def test_episodes_of_habitat_get_their_line(data_dir: Path) -> None:
    """Also where a packed file would fill the memory."""
    for split in SPLITS:
        (data_dir / "annotations" / f"R2R_{split}.json").unlink()
    assert "no such file; data.dir needs R2R_train.json" in refusal(
        prepare_sources, settings(data_dir)
    )
    file = data_dir / "train" / "train.json.gz"
    file.parent.mkdir()
    with gzip.open(file, "wb", compresslevel=1) as out:
        out.write(b'{"episodes": [')
        for _ in range(200):
            out.write(b" " * (1 << 20))
    begun = time.process_time()
    message = refusal(prepare_sources, settings(data_dir))
    assert message.startswith(f"{file}: holds episodes of VLN-CE, which need Habitat; give the R2R")
    assert time.process_time() - begun < 1


# --- files with the fields of released ones -----------------------------------------------------


@pytest.fixture
def duet(shared: Path) -> Path:
    folder = shared / "data" / "formats" / "duet"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


@pytest.fixture
def expected(duet: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((duet.parent / "expected.json").read_text())["duet"]
    return found


DATASETS = {"R2R": "r2r", "R4R": "r4r", "REVERIE": "reverie", "NDH": "ndh"}


def bert_words(duet: Path, file: Path) -> Path:
    ids = json.loads((duet / "annotations" / "bert_ids.json").read_text())
    words = {number: word for word, number in ids.items()}
    file.write_text(
        "".join(f"{words.get(n, f'[unused{n}]')}\n" for n in range(30_522)), encoding="utf-8"
    )
    return file


@pytest.mark.needs_shared
def test_released_files_hold_what_is_expected(
    duet: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    pieces = read_pieces(bert_words(duet, tmp_path / "vocab.txt"))
    texts: dict[str, list[str]] = {}
    for name, counts in expected["annotations"].items():
        file = duet / "annotations" / name
        items = read_annotations(file, Form(DATASETS[file.name.partition("_")[0]], pieces))
        texts[file.name] = [t for i in items for t in i["instructions"]]
        assert len(items) == counts["items"] and len(texts[file.name]) == counts["instructions"]
    assert texts["R2R_hm3d_aug_envdrop_generated_enc.jsonl"] == expected["decoded_jsonl"]
    assert texts["R4R_val_seen_enc.json"][3] == "Go past the table and stop. Go back to the door."
    ndh = expected["ndh_as_r2r"]
    (item,) = read_annotations(duet / "annotations" / "NDH_val_seen.json", Form("ndh"))
    assert item["instructions"] == [ndh["instruction"]]
    assert (item["path_id"], item["heading"]) == (ndh["path_id"], ndh["heading"])
    reverie = read_annotations(duet / "annotations" / "REVERIE_val_seen.json", Form("reverie"))
    assert [i["path_id"] for i in reverie] == ["1_12", "1_30"]


@pytest.mark.needs_shared
def test_a_released_folder_is_data_dir_as_it_is(duet: Path, tmp_path: Path) -> None:
    """Names of copies, excluded viewpoints, generated paths of another house, views cut to what was asked for."""
    views = duet / "features" / "pth_vit_base_patch16_224_imagenet.hdf5"
    config = changed(
        FedVLNConfig(), data_dir=str(duet), features=str(views), feature_size=768, min_word_count=1,
        cache_dir=str(tmp_path), bert_vocabulary=str(bert_words(duet, tmp_path / "vocab.txt")),
        augmented="pretrain_map/R2R_hm3d_aug_envdrop_generated_enc.jsonl, R2R_scalevln_ft_aug_enc.json",
    )  # fmt: skip
    open_sources.cache_clear()
    sources = prepare_sources(config)
    assert sources.training_scans == ["Made1House", "00900-Made2House"]
    assert sources.manifest["samples"]["00900-Made2House"] == {
        "train": 3, "val_seen": 0, "val_unseen": 6
    }  # fmt: skip
    (habitat := tmp_path / "ce").mkdir()
    shutil.copytree(duet / "connectivity", habitat / "connectivity")
    (habitat / "annotations").mkdir()
    shutil.copy(duet / "annotations" / "vlnce_val_seen.json.gz", habitat / "annotations")
    message = refusal(prepare_sources, changed(config, data_dir=str(habitat)))
    assert "holds episodes of VLN-CE, which need Habitat; give the R2R file of the same" in message
