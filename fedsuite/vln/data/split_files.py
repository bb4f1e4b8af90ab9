"""Which files in data.dir hold the instructions of each split, and what stands in them.

R2R_<split>.json, or as VLN-DUET's copies are called R2R_<split>_enc.json or R2R_<split>_enc.jsonl, whichever is there first;
other data sets have their own names in place of R2R (walking_formats.py), Room-across-Room its own form (rxr.py). Files that
data.augmented names hold generated instructions: they are for training alone, and add nothing to the vocabulary.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.storage.progress import Progress, silent
from fedsuite.vln.config import DataSettings
from fedsuite.vln.data.annotations import HABITAT, SPLITS, Form, read_annotations
from fedsuite.vln.data.bert_ids import read_pieces
from fedsuite.vln.data.rxr import guide_file, read_guides
from fedsuite.vln.data.walking_formats import FORMATS, PLANNER, Item
from fedsuite.vln.message_keys import TEST

ENDINGS = (".json", "_enc.json", "_enc.jsonl")
LEFT_ASIDE = "val_train_seen"  # a part of the training paths, which is scored as a split of its own elsewhere
_HEAD = 1 << 16  # bytes of a packed file that say what it is


@dataclass(frozen=True)
class Reading:
    """What data.dir holds, and how it is read: the settings of [data] that say so."""

    dataset: str = "r2r"
    language: str = "en"
    augmented: tuple[str, ...] = ()
    bert_vocabulary: str = ""
    ndh_path: str = PLANNER

    @classmethod
    def of(cls, own: DataSettings) -> "Reading":
        """As a run is told."""
        names = tuple(filter(None, (name.strip() for name in own.augmented.split(","))))
        return cls(own.dataset, own.language, names, own.bert_vocabulary, own.ndh_path)

    @property
    def form(self) -> Form:
        """With the vocabulary read, if there is one."""
        pieces = read_pieces(Path(self.bert_vocabulary)) if self.bert_vocabulary else ()
        return Form(self.dataset, pieces, self.ndh_path)

    def digested(self) -> list[object]:
        """What must make another prepared folder. R2R is English alone: its language says nothing."""
        parts: list[object] = [self.dataset]
        parts += [self.language] if self.dataset == "rxr" else []
        parts += [Path(self.bert_vocabulary)] if self.bert_vocabulary else []
        return parts + ([self.ndh_path] if self.dataset == "ndh" else [])


R2R = Reading()


def annotation_files(data_dir: Path, dataset: str) -> dict[str, Path]:
    """The annotation file of every split, whether it is there or not; dataset: rxr, or one of FORMATS."""
    folder = data_dir / "annotations"
    if dataset == "rxr":
        return {s: guide_file(folder, s) for s in SPLITS}
    return {s: _first_there(folder, f"{FORMATS[dataset].prefix}_{s}") for s in SPLITS}


def _first_there(folder: Path, name: str) -> Path:
    names = [folder / f"{name}{ending}" for ending in ENDINGS]
    return next((file for file in names if file.is_file()), names[0])


def test_file(data_dir: Path) -> Path:
    """Instructions of the R2R leaderboard; a path there holds its start alone."""
    return data_dir / "annotations" / f"R2R_{TEST}.json"


def augmented_files(data_dir: Path, names: Sequence[str]) -> list[Path]:
    """Files of generated instructions, named from annotations/ on."""
    return [data_dir / "annotations" / name for name in names]


def absent(data_dir: Path, reading: Reading) -> Iterator[str]:
    """A line for each file that is not there."""
    files = annotation_files(data_dir, reading.dataset).values()
    for missing in (f for f in files if not f.is_file()):
        for packed in sorted(data_dir.rglob("*.json.gz")):
            if _is_of_habitat(packed):
                yield f"{packed}: {HABITAT}"
        names = ", ".join(f.name for f in files)
        yield f"{missing}: no such file; data.dir needs {names} in annotations/"
    for missing in (f for f in augmented_files(data_dir, reading.augmented) if not f.is_file()):
        yield f"data.augmented: {missing} is no file; name files of annotations/, with commas between them"
    if reading.augmented and reading.dataset == "rxr":
        yield "data.augmented: Room-across-Room has guides alone; leave it empty, or set data.dataset=r2r"
    if reading.bert_vocabulary and not Path(reading.bert_vocabulary).is_file():
        yield f"data.bert-vocabulary: {reading.bert_vocabulary} is no file; give the vocab.txt of bert-base-uncased"


def _is_of_habitat(packed: Path) -> bool:
    """Whether a packed file begins as VLN-CE's do; whatever its size, only its head is unpacked."""
    try:
        with gzip.open(packed) as stream:
            return b'"episodes"' in stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return False


def read_splits(
    data_dir: Path, reading: Reading, test: Path | None, progress: Progress = silent
) -> tuple[dict[str, Path], dict[str, list[Item]]]:
    """Files and items by split. test: the leaderboard's split, where a run walks it."""
    files = annotation_files(data_dir, reading.dataset)
    if reading.dataset == "rxr":
        return files, {s: read_guides(f, reading.language) for s, f in files.items()}
    own, form = FORMATS[reading.dataset], reading.form
    splits = {s: read_annotations(f, form) for s, f in files.items()}
    for split, file in files.items():
        _check_beside(file, splits[split], form)
    for aside in sorted((data_dir / "annotations").glob(f"{own.prefix}_{LEFT_ASIDE}*.json")):
        progress(f"{aside}: left aside, for its paths are training paths")
    if own.scored:
        progress(f"data.dataset {reading.dataset}: {own.scored}")
    if test:
        files[TEST], splits[TEST] = test, read_annotations(test)
    return files, splits


def read_augmented(data_dir: Path, reading: Reading, progress: Progress) -> list[Item]:
    """Generated instructions, whose items name their file; they are of R2R's form, whatever the annotated ones are of."""
    found, form = list[Item](), replace(reading.form, dataset="r2r")
    for file in augmented_files(data_dir, reading.augmented):
        items = [{**item, "augmented": file.name} for item in read_annotations(file, form)]
        texts = sum(len(item["instructions"]) for item in items)
        progress(f"{file}: {texts} generated instructions are trained on as well")
        found += items
    return found


def _check_beside(file: Path, items: Sequence[Item], form: Form) -> None:
    """InputError if a copy with token ids beside `file` is of other paths."""
    copy = file.with_name(f"{file.stem}_enc.json")
    if file.suffix != ".json" or not copy.is_file():
        return
    here, there = (
        {str(i["path_id"]) for i in own} for own in (items, read_annotations(copy, form))
    )
    if odd := sorted(here ^ there):
        where = file if odd[0] in here else copy
        raise InputError(
            f"{copy}: of other paths than {file.name} (path_id {odd[0]} is in {where.name} alone); {file.name} is read, so "
            "move the other one away"
        )
