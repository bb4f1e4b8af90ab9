"""`fedsuite data prepare-node` and `make-roster`: a roster made of what nodes say of themselves."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedsuite.errors import InputError
from fedsuite.roster.members import read_roster, write_roster
from fedsuite.roster.node_report import (
    Part,
    as_json,
    fingerprint_of,
    join,
    read_part,
    total_words,
    write_part,
)
from fedsuite.settings.config import parse_text, read_config
from fedsuite.storage.deleting import delete_file
from simulations.commands.options import check_used, print_file

LeastUses = Annotated[
    int | None,
    typer.Option(
        "--min-word-count", min=1, help="FedVLN: uses that a counted word needs; default: 5."
    ),
]
Out = Annotated[Path | None, typer.Option(help="New file to write; default: stdout.")]


def prepare_node(
    node: Annotated[
        Path, typer.Argument(help="The node's own TOML; its roster may be missing yet.")
    ],
    config: Annotated[Path, typer.Argument(help="TOML of the experiment, or its shipped name.")],
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a key.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="The SuperNode's public key, KEY.pub, to bind the name to.")
    ] = None,
    count_words: Annotated[
        bool, typer.Option("--count-words", help="FedVLN: tell how often each word is used.")
    ] = False,
    out: Out = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of --out.")
    ] = False,
) -> None:
    """Convert and check what a node has, and print what is to stand in the roster for it."""
    check_used("--overwrite", overwrite, "--out", out)
    if out is not None and not overwrite:
        _new(out, "give a new file, or --overwrite")
    part = part_of_node(node, config, change or [], count_words)
    if key is not None:
        part = replace(part, member=replace(part.member, key=fingerprint_of(key)))
    if out is None:
        print_file(json.dumps(as_json(part), indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    else:
        write_part(out, part)


def part_of_node(
    node: Path, config: Path, changes: Sequence[str], count_words: bool = False
) -> Part:
    """What is to stand in the roster for the node of this file, its data converted and checked as the run says."""
    from fedsuite.roster.node import read_node
    from fedsuite.storage.escaping import PlainConsole
    from simulations.app.own_node import as_own, check_system
    from simulations.experiments.progress import Preparing
    from simulations.experiments.request import given, read_toml, split_changes
    from simulations.experiments.variants import base_of
    from simulations.shipped import config_file
    from simulations.systems import load_system

    own, table = (
        read_node(node, rostered=False),
        base_of(read_toml(config_file(config)), str(config)),
    )
    typed = split_changes(changes)
    name = given("system", typed, table)
    check_system(own, {"system": name})
    system = load_system(name)
    if system.describe is None:
        raise InputError(f"system: {name} cannot say what stands in a roster; write it by hand")
    values = {k: parse_text(system.config_class, k, text) for k, text in typed.items()}
    settings = read_config(system.config_class, {**table, **values}, str(config))
    settings = as_own(settings, own, Path(own.state_dir))
    system.accepts(settings, own)
    with Preparing(PlainConsole(stderr=True)) as progress:
        return system.describe(settings, own.name, count_words, progress)


def make_roster(
    parts: Annotated[list[Path], typer.Argument(help="What nodes said, in the order of members.")],
    out: Annotated[Path, typer.Option(help="New file to write.")],
    vocabulary: Annotated[
        Path | None, typer.Option(help="FedVLN: words to use; default: those that nodes counted.")
    ] = None,
    min_word_count: LeastUses = None,
) -> None:
    """Join what nodes say of themselves to a roster."""
    _new(out)
    files = {str(file): read_part(file) for file in parts}
    if len(files) < len(parts):
        raise InputError("make-roster: a file is given twice; leave one of them out")
    roster = join(files, words_of(files, vocabulary, min_word_count))
    write_roster(out, roster)
    try:
        read_roster(out)
    except InputError:
        delete_file(out)
        raise


def words_of(
    parts: Mapping[str, Part], file: Path | None, least: int | None = None
) -> tuple[str, ...]:
    """The words that a roster of these parts has: those of a file, else those that nodes counted, `least` times or 5."""
    if next(iter(parts.values())).system != "fedvln":
        for option, given in (("--vocabulary", file), ("--min-word-count", least)):
            if given is not None:
                raise InputError(f"{option}: only FedVLN has words; leave it out")
        return ()
    if file and least:
        raise InputError(
            "--min-word-count: the words of --vocabulary are not counted; leave one of them out"
        )
    from fedsuite.vln.data.instructions import read_vocabulary, vocabulary_of

    if file and any(part.words for part in parts.values()):
        print(f"the words are those of {file}; what nodes counted is not used")
    return (read_vocabulary(file) if file else vocabulary_of(total_words(parts), least or 5)).words


def _new(file: Path, cure: str = "give a new file") -> None:
    if file.exists():
        raise InputError(f"{file}: is there already, nothing in it was touched; {cure}")
