"""Guide annotations of Room-across-Room (RxR; Ku et al. 2020) as items of the form of Room-to-Room.

Official files are gzipped JSON Lines, `rxr_<split>_guide.jsonl.gz`, one guide per line: instruction_id (int, unique),
language (a tag such as en-IN), path_id (int), scan, path (viewpoint ids), heading (rad, as in R2R), instruction (text);
other fields (timed words, annotator) are left aside. All guides of one path make one item.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError
from fedsuite.settings.values import of_type
from fedsuite.storage.files import check_readable, parsed_json

ALL = "all"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**63


def _is_finite(value: Any) -> bool:
    try:
        return of_type(value, float) is not None
    except ValueError:
        return False


FIELDS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("instruction_id", _is_whole, "a whole number"),
    ("language", _is_text, "a text"),
    ("path_id", _is_whole, "a whole number"),
    ("scan", _is_text, "a text"),
    ("path", lambda v: isinstance(v, list) and all(map(_is_text, v)), "a list of texts"),
    ("heading", _is_finite, "a finite number"),
    ("instruction", _is_text, "a text"),
)


def guide_file(folder: Path, split: str) -> Path:
    """The split's file in `folder`: gzipped as released, or else unpacked."""
    packed = folder / f"rxr_{split}_guide.jsonl.gz"
    unpacked = packed.with_suffix("")
    return unpacked if unpacked.is_file() and not packed.is_file() else packed


def speaks(tag: str, language: str) -> bool:
    """Whether a guide with this tag is wanted: "en" takes every en-*, "en-US" only itself, "all" everything."""
    return language in (ALL, tag, tag.partition("-")[0])


def read_guides(file: Path, language: str) -> list[dict[str, Any]]:
    """Items, one per scan, path_id, path and heading, as they first appear; InputError if the file is none of guides."""
    items: dict[tuple[Any, ...], dict[str, Any]] = {}
    languages, numbers = set(), set()
    for line, guide in _guides(file):
        if guide["instruction_id"] in numbers:
            raise InputError(
                f"{file}: line {line}: instruction_id {guide['instruction_id']} came before; the file is damaged, "
                "fetch it again"
            )
        numbers.add(guide["instruction_id"])
        languages.add(guide["language"])
        if not speaks(guide["language"], language):
            continue
        key = (guide["scan"], guide["path_id"], tuple(guide["path"]), guide["heading"])
        fields = {name: guide[name] for name in ("scan", "path_id", "path", "heading")}
        item = items.setdefault(key, {**fields, "instructions": [], "instruction_ids": []})
        item["instructions"].append(guide["instruction"])
        item["instruction_ids"].append(str(guide["instruction_id"]))
    if not items:
        there = ", ".join(sorted(languages)) or "no guides at all"
        raise InputError(
            f"{file}: expected guides of language {language!r}, got {there}; set language to one of these or to all"
        )
    return list(items.values())


def _guides(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, guide) of every line that is not blank, with its fields checked."""
    for number, guide in json_lines(file):
        _check(guide, f"{file}: line {number}")
        yield number, guide


def json_lines(file: Path) -> Iterator[tuple[int, Any]]:
    """(line number, content) of every line of a file, gzipped or not, that is not blank; InputError if one is no JSON."""
    for number, raw in _lines(file):
        if not raw.strip():
            continue
        try:
            yield number, parsed_json(raw.decode())
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{file}: line {number} is not JSON in UTF-8 ({error}); the file is damaged, fetch it again"
            ) from None


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    check_readable(file)
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
            yield from enumerate(stream, 1)
    except FileNotFoundError:
        raise InputError(f"{file}: no such file; data.dir needs annotations/{file.name}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{file}: cannot be read to its end ({error}); the file is truncated or damaged, fetch it again"
        ) from None


def _check(guide: Any, where: str) -> None:
    if not isinstance(guide, dict):
        raise InputError(
            f"{where}: expected one guide as a JSON object, got {type(guide).__name__}; use the official files with "
            "one guide per line"
        )
    for name, fits, kind in FIELDS:
        if name not in guide:
            raise InputError(
                f"{where}: field {name} is missing; use the guide annotations of RxR, not those of followers"
            )
        if not fits(guide[name]):
            raise InputError(
                f"{where}: {name} must be {kind}, got {json.dumps(guide[name])[:60]}; the file is damaged, "
                "fetch it again"
            )
