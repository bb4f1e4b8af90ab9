"""How the runs were set: where they differ, where they differ from the defaults, and what runs them again."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Section, Table, table_of
from fedsuite.settings.config import Value
from fedsuite.settings.values import shown

AGAIN = (
    "Save the lines below a file's name under that name, then run the last line. Paths are those of the machine that "
    "the runs were made on."
)
# Names and places of a run, on which no result depends.
PLACES = frozenset(("name", "results-dir", "resume", "roster", "data.cache-dir"))
_SEED = re.compile(r"^(?:(?P<variant>.+)/)?seed-(?P<seed>\d+)$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def settings_section(digests: Sequence[Digest], defaults: Mapping[str, Value]) -> Section:
    """Keys in which runs differ, a line for all that agree; keys that all have in common, but not by default."""
    differing = [k for k in differing_keys([d.settings for d in digests]) if k != "seed"]
    tables = []
    if differing:
        alike: dict[tuple[str, ...], list[Digest]] = {}
        for d in digests:
            alike.setdefault((d.line, *(_cell(d, k) for k in differing)), []).append(d)
        rows = [
            {"line": line, "seeds": _seeds(own), **dict(zip(differing, values, strict=True))}
            for (line, *values), own in alike.items()
        ]
        tables.append(table_of("Where runs differ", rows))
    tables += _common(digests, defaults, differing)
    seeds = _seeds(digests)
    return Section("Settings", text=(f"Seeds: {seeds}.",), tables=tuple(tables))


def differing_keys(settings: Sequence[Mapping[str, Value]]) -> list[str]:
    """Keys that do not have one value in all of them, places aside, in order."""
    keys = sorted({k for s in settings for k in s} - PLACES)
    return [k for k in keys if len({json.dumps(s.get(k)) for s in settings}) > 1]


def _common(
    digests: Sequence[Digest], defaults: Mapping[str, Value], differing: Iterable[str]
) -> list[Table]:
    first = digests[0].settings
    own = [k for k in changed_keys(first, defaults) if k not in differing and k != "seed"]
    rows = [
        {
            "key": k,
            "value": shown(first[k]),
            "default": shown(defaults[k]) if k in defaults else "-",
        }
        for k in own
    ]
    where = "in all runs" if len(digests) > 1 else "in this run"
    return [table_of(f"Not the default, {where}", rows, long=len(rows) > 12)] if rows else []


def changed_keys(settings: Mapping[str, Value], defaults: Mapping[str, Value]) -> list[str]:
    """Keys whose value is not the default, places aside."""
    return [k for k in sorted(settings) if k not in PLACES and defaults.get(k) != settings[k]]


def _cell(digest: Digest, key: str) -> str:
    return shown(digest.settings[key]) if key in digest.settings else "-"


def _seeds(digests: Sequence[Digest]) -> str:
    return ", ".join(map(str, sorted({int(d.settings.get("seed", 0)) for d in digests})))


def ends_section(digests: Sequence[Digest]) -> Section:
    """How every run ended, when, and with which versions."""
    versions = sorted({name for d in digests for name in d.standing.get("versions", {})})
    rows = []
    for d in digests:
        own = d.standing.get("versions", {})
        rows.append(
            {
                "run": d.place.label,
                "state": d.place.status,
                "rounds": f"{d.rounds}/{d.settings.get('num-rounds', '?')}",
                "started (UTC)": _time(d.standing.get("started")),
                "ended (UTC)": _time(d.standing.get("ended")),
                **{name: str(own.get(name, "-")) for name in versions},
            }
        )
    tables = (table_of("Runs", rows, long=len(rows) > 30),)
    return Section("How the runs ended, and versions", tables=tables)


def _time(text: object) -> str:
    return str(text or "-")[:19].replace("T", " ")


def again_section(digests: Sequence[Digest], defaults: Mapping[str, Value]) -> Section:
    """A file and a command for every experiment, with which these runs are run again."""
    parts = []
    for folder, found in groupby(digests, lambda d: d.place.experiment):
        own = list(found)
        name = re.sub(r"[^A-Za-z0-9_-]", "-", folder.name) or "again"
        parts.append(f"# {name}.toml\n{toml_of(own, defaults)}\nfedsuite run {name}.toml")
    return Section("Run it again", text=(AGAIN,), code="\n\n".join(parts))


def toml_of(digests: Sequence[Digest], defaults: Mapping[str, Value]) -> str:
    """An experiment as TOML: what is not by default; variants and seeds as in labels, or a variant for every run."""
    seeds, variants = _grid(digests)
    differing = set(differing_keys([d.settings for d in variants.values()]))
    own = {*differing, *(("seed",) if seeds else ())}
    first = digests[0].settings
    common = [k for k in changed_keys(first, defaults) if k not in {*own, "system"}]
    lines = [f"{k} = {_toml(first[k])}" for k in ["system", *common]]
    lines += [f"seeds = {_toml(seeds)}"] if seeds else []
    for variant, d in variants.items():
        if variant:
            quoted = variant if _BARE.fullmatch(variant) else _toml(variant)
            lines += ["", f"[variants.{quoted}]"]
        keys = [k for k in sorted(differing) if k in d.settings and not (seeds and k == "seed")]
        lines += [f"{k} = {_toml(d.settings[k])}" for k in keys]
    return "\n".join(lines) + "\n"


def _grid(digests: Sequence[Digest]) -> tuple[list[int], dict[str, Digest]]:
    """Seeds, and the first run of every variant. Where runs are not all variants by all seeds: no seeds, every run."""
    labels = [d.place.folder.relative_to(d.place.experiment).as_posix() for d in digests]
    if len(digests) == 1 and labels[0] == ".":
        return [], {"": digests[0]}
    found: dict[str, dict[int, Digest]] = {}
    for label, d in zip(labels, digests, strict=True):
        if split := _SEED.match(label):
            found.setdefault(split["variant"] or "", {})[int(split["seed"])] = d
    seeds = {tuple(sorted(own)) for own in found.values()}
    whole = sum(map(len, found.values())) == len(digests) and len(seeds) == 1
    alike = all(
        set(differing_keys([d.settings for d in own.values()])) <= {"seed"}
        for own in found.values()
    )
    if whole and alike:
        return list(seeds.pop()), {name: next(iter(own.values())) for name, own in found.items()}
    return [], {label.replace("/", "-"): d for label, d in zip(labels, digests, strict=True)}


def _toml(value: Value | list[int]) -> str:
    return json.dumps(value, ensure_ascii=False)
