"""RxR guides: reading, grouping, languages, what is said of bad files, and houses prepared from them."""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, load_house, load_vocabulary, make_episodes
from fedsuite.vln.data.instructions import EOS, UNK
from fedsuite.vln.data.prepare import prepare_houses
from fedsuite.vln.data.rxr import read_guides
from fedsuite.vln.data.sources import Sources, open_sources, prepare_sources
from fedsuite.vln.data.split_files import Reading
from fedsuite.vln.generator.houses import HouseSettings, write_houses
from tests.harness import changed

SPLITS = ("train", "val_seen", "val_unseen")
ENGLISH = "Okay, you are facing a bed. Turn around, walk past it and stop at the brown door."
HINDI = "आप कमरे में हैं। दाईं ओर मुड़ें, और सीढ़ियों के पास रुकें।"
TELUGU = "మీరు గదిలో ఉన్నారు. ఎడమ వైపు తిరిగి, తలుపు దగ్గర ఆగండి."
SPOKEN = (("en-US", ENGLISH), ("hi-IN", HINDI), ("en-IN", f"{ENGLISH} Stop."), ("te-IN", TELUGU))


def guide(number: int, language: str = "en-US", instruction: str = ENGLISH, **other) -> dict:
    """One guide annotation with every field of the release."""
    words = [{"word": w, "start_time": 0.4 + k, "end_time": 1.0 + k} for k, w in enumerate("ab")]
    return {
        "split": "train",
        "instruction_id": number,
        "annotator_id": 19,
        "language": language,
        "path_id": 11,
        "scan": "oak",
        "path": ["oak-0", "oak-4"],
        "heading": 3.1,
        "instruction": instruction,
        "timed_instruction": [*words, {"word": "untimed"}],
        "edit_distance": 0.11,
    } | other


def lines_of(guides: list[dict]) -> bytes:
    return b"".join(json.dumps(g, ensure_ascii=False).encode() + b"\n" for g in guides)


def write_guides(file: Path, guides: list[dict]) -> Path:
    text = lines_of(guides)
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


def refusal(work, *arguments) -> str:
    with pytest.raises(InputError) as error:
        work(*arguments)
    message = str(error.value)
    assert "\n" not in message
    return message


# --- reading ----------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rxr_train_guide.jsonl.gz"


@pytest.mark.parametrize("name", ["rxr_train_guide.jsonl.gz", "rxr_train_guide.jsonl"])
def test_guides_of_one_path_make_one_item(tmp_path, name):
    guides = [
        guide(26),
        guide(7, path_id=3, path=["oak-2"], heading=0),
        guide(4, "en-IN", "Go."),
        guide(31, heading=3.2),
        guide(8, scan="elm"),
    ]
    got = read_guides(write_guides(tmp_path / name, guides), "en")
    assert [i["instruction_ids"] for i in got] == [["26", "4"], ["7"], ["31"], ["8"]]
    assert got[0] == {
        "scan": "oak",
        "path_id": 11,
        "path": ["oak-0", "oak-4"],
        "heading": 3.1,
        "instructions": [ENGLISH, "Go."],
        "instruction_ids": ["26", "4"],
    }


@pytest.mark.parametrize(
    ("language", "numbers"),
    [
        ("en", ["0", "2", "4"]),
        ("en-US", ["0", "4"]),
        ("en-IN", ["2"]),
        ("hi", ["1"]),
        ("te-IN", ["3"]),
        ("all", ["0", "1", "2", "3", "4"]),
    ],
)
def test_languages(file, language, numbers):
    guides = [guide(k, *SPOKEN[k % 4]) for k in range(5)]
    (item,) = read_guides(write_guides(file, guides), language)
    assert item["instruction_ids"] == numbers
    assert item["instructions"] == [guides[int(n)]["instruction"] for n in numbers]


@pytest.mark.parametrize("language", ["de", "e", "EN", "en-", ""])
def test_a_language_that_nobody_speaks(file, language):
    write_guides(file, [guide(k, *SPOKEN[k]) for k in range(3)])
    message = refusal(read_guides, file, language)
    assert message.startswith(f"{file}: expected guides of language {language!r}")
    assert "got en-IN, en-US, hi-IN; set language" in message


def test_a_file_without_guides(file):
    file.write_bytes(gzip.compress(b"\n \n"))
    assert "got no guides at all" in refusal(read_guides, file, "all")


def test_blank_lines_are_no_guides_but_count_as_lines(file):
    file.write_bytes(gzip.compress(b"\n" + lines_of([guide(1)]) + b"\n{"))
    assert f"{file}: line 4 is not JSON" in refusal(read_guides, file, "en")
    file.write_bytes(gzip.compress(b"\n" + lines_of([guide(1)]) + b"\n"))
    assert len(read_guides(file, "en")) == 1


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("instruction_id", "26", "a whole number"),
        ("instruction_id", True, "a whole number"),
        ("language", None, "a text"),
        ("path_id", 1.5, "a whole number"),
        ("scan", 5, "a text"),
        ("path", "oak-0", "a list of texts"),
        ("path", ["oak-0", 4], "a list of texts"),
        ("heading", "north", "a finite number"),
        ("heading", float("nan"), "a finite number"),
        ("heading", float("inf"), "a finite number"),
        ("instruction", ["Go."], "a text"),
    ],
)
def test_fields_of_the_wrong_kind(file, field, value, kind):
    write_guides(file, [guide(1), guide(2, **{field: value})])
    message = refusal(read_guides, file, "en")
    assert message.startswith(f"{file}: line 2: {field} must be {kind}, got {json.dumps(value)};")


@pytest.mark.parametrize("field", ["instruction_id", "language", "heading", "instruction", "scan"])
def test_missing_fields(file, field):
    bad = guide(2)
    del bad[field]
    write_guides(file, [guide(1), bad])
    assert f"{file}: line 2: field {field} is missing" in refusal(read_guides, file, "en")


def test_fields_that_are_not_needed_may_be_missing(file):
    bare = guide(1)
    for field in ("split", "annotator_id", "timed_instruction", "edit_distance"):
        del bare[field]
    assert len(read_guides(write_guides(file, [bare]), "en")) == 1


def test_an_instruction_that_comes_twice(file):
    write_guides(file, [guide(5), guide(6), guide(5, "hi-IN")])
    assert "line 3: instruction_id 5 came before" in refusal(read_guides, file, "en")


def test_one_big_list_is_no_file_of_guides(file):
    file.write_bytes(gzip.compress(json.dumps([guide(1), guide(2)]).encode()))
    message = refusal(read_guides, file, "en")
    assert "line 1: expected one guide as a JSON object, got list" in message


def test_damaged_files(file):
    """Cut short, damaged in the middle, not gzip at all, not UTF-8, no such file."""
    whole = write_guides(file, [guide(k, instruction=f"{ENGLISH} {k}") for k in range(300)])
    content = whole.read_bytes()
    flipped = content[:200] + bytes(255 - b for b in content[200:400]) + content[400:]
    for bad in (content[:-40], flipped, lines_of([guide(1)]), content[:5]):
        file.write_bytes(bad)
        message = refusal(read_guides, file, "en")
        assert message.startswith(f"{file}: ") and "fetch it again" in message
    file.write_bytes(gzip.compress(lines_of([guide(1)]) + ENGLISH.encode("utf-16")))
    assert f"{file}: line 2 is not JSON in UTF-8" in refusal(read_guides, file, "en")
    file.unlink()
    assert f"{file}: no such file" in refusal(read_guides, file, "en")


# --- houses from guides -----------------------------------------------------------------------


def as_guides(items: list[dict], split: str, first: int) -> list[dict]:
    """Four guides per path, one after another through the file as annotators come."""
    rows = []
    for k, (language, text) in enumerate(SPOKEN):
        for number, item in enumerate(items):
            fields = {n: item[n] for n in ("scan", "path_id", "path", "heading")}
            rows.append(
                guide(first + k * len(items) + number, language, text, split=split, **fields)
            )
    return rows


@pytest.fixture(scope="module")
def rxr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated houses, annotated as RxR is; the R2R files are gone."""
    folder = tmp_path_factory.mktemp("rxr")
    settings = HouseSettings(
        num_seen=2,
        num_unseen=1,
        paths_per_house=4,
        val_seen_paths=1,
        unseen_paths=2,
        feature_size=8,
    )
    write_houses(settings, folder)
    for number, split in enumerate(SPLITS):
        old = folder / "annotations" / f"R2R_{split}.json"
        guides = as_guides(json.loads(old.read_text()), split, 1000 * number)
        write_guides(folder / "annotations" / f"rxr_{split}_guide.jsonl.gz", guides)
        old.unlink()
    return folder


@pytest.fixture
def config(rxr: Path, tmp_path: Path) -> FedVLNConfig:
    return changed(
        FedVLNConfig(),
        data_dir=str(rxr),
        features=str(rxr / "views"),
        cache_dir=str(tmp_path / "cache"),
        dataset="rxr",
        max_instruction_length=160,
        min_word_count=2,
    )


def opened(sources: Sources, scan: str) -> House:
    return load_house(sources.houses_dir, sources.connectivity_dir, sources.views_dir, scan, 160)


def plain_guides(rxr: Path, split: str) -> list[dict]:
    """The file, read without the reader."""
    text = gzip.decompress((rxr / "annotations" / f"rxr_{split}_guide.jsonl.gz").read_bytes())
    return [json.loads(line) for line in text.decode().splitlines()]


@pytest.mark.slow
def test_clients_come_from_the_training_guides(config, rxr):
    sources = prepare_sources(config)
    train = [g for g in plain_guides(rxr, "train") if g["language"].startswith("en")]
    assert sources.training_scans == list(dict.fromkeys(g["scan"] for g in train))
    assert len(sources.training_scans) == 2 and len(sources.unseen_scans) == 1
    for scan in sources.training_scans:
        own = sources.manifest["samples"][scan]["train"]
        assert own == sum(g["scan"] == scan for g in train) > 0


def test_samples_carry_the_numbers_of_their_guides(config, rxr):
    sources = prepare_sources(config)
    for split in SPLITS:
        want = defaultdict(list)
        for g in plain_guides(rxr, split):
            if g["language"].startswith("en"):
                want[g["scan"]].append(g)
        for scan, guides in want.items():
            house = opened(sources, scan)
            by_number = {s.instr_id: s for s in house.samples[split]}
            assert by_number.keys() == {str(g["instruction_id"]) for g in guides}
            for g in guides:
                s = by_number[str(g["instruction_id"])]
                assert (s.text, s.path_id) == (g["instruction"], g["path_id"])
                assert [house.graph.viewpoint_ids[v] for v in s.path] == g["path"]


def test_samples_make_episodes(config):
    house = opened(sources := prepare_sources(config), sources.training_scans[0])
    samples = house.samples["train"]
    episodes = make_episodes(samples, join_houses([house]))
    assert episodes.tokens.shape == (len(samples), max(len(s.tokens) for s in samples))


def test_all_languages_together_know_their_words(config):
    sources = prepare_sources(changed(config, language="all"))
    words = load_vocabulary(sources.houses_dir).index
    assert {"कमरे", "सीढ़ियों", "।", "తలుపు", "door"} <= words.keys()
    for scan in sources.training_scans:
        samples = opened(sources, scan).samples["train"]
        assert {s.text for s in samples} == {text for _, text in SPOKEN}
        assert all(UNK not in s.tokens for s in samples)


def test_languages_are_kept_apart_in_the_cache(config):
    folders = [
        prepare_sources(changed(config, language=x)).houses_dir for x in ("en", "hi", "en", "all")
    ]
    assert folders[0] == folders[2] and len(set(folders)) == 3
    open_sources.cache_clear()
    assert prepare_sources(config).houses_dir == folders[0]
    hindi = load_vocabulary(folders[1]).index
    assert "कमरे" in hindi and "door" not in hindi


def test_long_instructions_are_cut_to_160(rxr, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("connectivity", "views"):
        (data / name).symlink_to(rxr / name)
    (data / "annotations").mkdir()
    for split in SPLITS:
        rows = plain_guides(rxr, split)[:40]
        text = " ".join(["walk"] * 200)
        rows = [{**g, "instruction": text} for g in rows]
        write_guides(data / "annotations" / f"rxr_{split}_guide.jsonl", rows)
    prepare_houses(data, tmp_path / "houses", 5, reading=Reading("rxr", "all"))
    scan = plain_guides(rxr, "train")[0]["scan"]
    house = load_house(tmp_path / "houses", data / "connectivity", data / "views", scan, 160)
    for s in house.samples["train"]:
        assert s.tokens.shape == (160,) and s.tokens[-1] == EOS and np.all(s.tokens[1:-1] == 3)


def test_missing_guides_are_named(config, tmp_path):
    data = tmp_path / "data"
    (data / "annotations").mkdir(parents=True)
    message = refusal(prepare_sources, changed(config, data_dir=str(data)))
    assert f"{data / 'annotations' / 'rxr_train_guide.jsonl.gz'}: no such file" in message
    assert "rxr_val_unseen_guide.jsonl.gz" in message


def test_r2r_files_are_not_taken_for_rxr(config):
    message = refusal(prepare_sources, changed(config, dataset="r2r"))
    assert "R2R_train.json: no such file" in message


def test_generated_houses_are_no_rxr(config):
    message = refusal(prepare_sources, changed(config, data_dir="", features=""))
    assert message.startswith("data.dir: empty, but data.dataset is rxr")


def test_a_language_that_the_files_lack(config):
    message = refusal(prepare_sources, changed(config, language="fr"))
    assert "rxr_train_guide.jsonl.gz: expected guides of language 'fr'" in message


def test_seen_validation_in_a_house_nobody_trains_in(rxr, tmp_path):
    data = tmp_path / "data"
    (data / "annotations").mkdir(parents=True)
    (data / "connectivity").symlink_to(rxr / "connectivity")
    for split, source in zip(SPLITS, ("train", "val_unseen", "val_unseen"), strict=True):
        name = f"rxr_{split}_guide.jsonl.gz"
        content = (rxr / "annotations" / name.replace(split, source)).read_bytes()
        (data / "annotations" / name).write_bytes(content)
    arguments = (data, tmp_path / "houses", 5, print, Reading("rxr"))
    message = refusal(prepare_houses, *arguments)
    assert "rxr_val_seen_guide.jsonl.gz: " in message and "is no training house" in message
