"""Files that are no configuration, places that are none, and combinations that cannot work."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.mistakes.refusing import LONGEST_LINE, SYSTEMS, Call, names_of, refused, said, toml

DEEP = 200_000
BYTES: dict[str, tuple[bytes, str]] = {
    "random bytes": (bytes(range(128, 256)), "cannot be read"),
    "latin-1": ('name = "caf\xe9"'.encode("latin-1"), "cannot be read"),
    "utf-16": ('system = "cdl"\n'.encode("utf-16"), "cannot be read"),
    "a NUL": (b'system = "cdl"\0', "no valid TOML"),
    "an open text": (b'name = "run', "no valid TOML"),
    "an open list": (b"seeds = [0, 1", "no valid TOML"),
    "an open table": (b"[data", "no valid TOML"),
    "a word": (b"hello", "no valid TOML"),
    "json": (b'{"system": "cdl"}', "no valid TOML"),
    "yaml": (b"system: cdl\n", "no valid TOML"),
    "a bare word as value": (b"system = cdl", "no valid TOML"),
    "a key twice": (b"seed = 1\nseed = 2\n", "no valid TOML"),
    "a section twice": (b"[data]\n[data]\n", "no valid TOML"),
    "a key dotted and in a section": (b'data.dir = "x"\n[data]\ndir = "y"\n', "no valid TOML"),
    "both forms of a key": (b'"data.dir" = "x"\n[data]\ndir = "y"\n', "data.dir is given twice"),
    "5,000 digits": (b"seed = " + b"9" * 5000, "cannot be read"),
    "5,000 digits in hexadecimal": (b"seed = 0x" + b"f" * 5000, "seed must be a value"),
    "400 digits as a rate": (b"min-reply-fraction = " + b"9" * 400, "a finite number"),
    "infinity": (b"min-reply-fraction = inf", "a finite number"),
    "no number": (b"node-deadline-s = nan", "a finite number"),
    "a date": (b"seed = 2024-01-01", "seed must be a whole number"),
    "a list": (b"seed = [1]", "seed must be a whole number"),
    "a table as value": (b"seed = {a = 1}", "seed"),
    "deep brackets": (b"seed = " + b"[" * DEEP + b"]" * DEEP, "cannot be read"),
    "deep tables": (b"a." * 3000 + b"a = 1", "x.toml"),
    "deep inline tables": (b"seed = " + b"{a = " * 900 + b"1" + b"}" * 900, "x.toml"),
    "a value where a section belongs": (b"data = 1", "data is a section"),
    "a section where a value belongs": (b"[seed]\na = 1", "seed is a value"),
    "an unknown section": (b"[dta]\ndir = 'x'", "unknown section [dta]"),
    "an empty key": (b'"" = 1', "unknown key ''"),
    "an escape sequence as key": (b'"\\u001b[31mred" = 1', "unknown key"),
    "a megabyte of key": (b"a" * 2**20 + b" = 1", "unknown key"),
    "a megabyte of text": (b'name = "' + b"a" * 2**20 + b'"', "name must be"),
    "a line break in a name": (b'name = "a\\nb"', "name must be text on one line"),
    "an escape sequence in a name": (b'name = "a\\u001b[31m"', "name must be"),
    "a slash in a name": (b'name = "a/b"', "name must be letters"),
    "dots as name": (b'name = ".."', "name must be letters"),
    "an emoji as name": ('name = "\U0001f600"'.encode(), "name must be letters"),
    "a blank as name": (b'name = " "', "name must be letters"),
    "a long name": (b'name = "' + b"a" * 300 + b'"', "name must be letters"),
    "a list as system": (b"system = [1]", "system"),
    "no system": (b'system = "vln"', "system: unknown"),
    "a system of nobody": (b'system = "no.such:SYSTEM"', "system: "),
    "a system of no module name": (b'system = ".x y:z"', "system: unknown"),
    "a system that is none": (b'system = "json:loads"', "expected a System"),
    "resume in the file": (b'resume = "x"', "--resume"),
    "seeds that are none": (b"seeds = [0, 0]", "seeds must be"),
    "seeds as text": (b'seeds = "0,1"', "seeds must be"),
    "seeds of 400 digits": (b"seeds = [" + b"9" * 400 + b"]", "seed must be a value <="),
    "negative seeds": (b"seeds = [-1]", "seeds must be"),
    "seed and seeds": (b"seed = 1\nseeds = [1]", "seed and seeds"),
    "variants that are a list": (b"variants = [1]", "variants must be tables"),
    "no variants": (b"[variants]", "variants must be tables"),
    "a variant called seed-1": (b"[variants.seed-1]\nseed = 1", "the name must not be"),
    "a variant called ..": (b'[variants.".."]\nseed = 1', "[variants...] the name must be"),
    "a variant with a name": (b'[variants.a]\nname = "x"', "name cannot differ"),
    "a variant with a bad key": (b"[variants.a]\nsed = 1", "[variants.a] unknown key 'sed'"),
    "a variant with a bad value": (b"[variants.a]\nseed = -1", "[variants.a] seed must be"),
    "variants and a sweep": (b"[variants.a]\nseed = 1\n[sweep]\nmetric = 'x'", "cannot be swept"),
    "a sweep that is a number": (b"sweep = 1", "sweep must be a table"),
    "a sweep of nothing": (b"[sweep]\nmetric = 'x'", "sweep"),
    "a sweep with a bad option": (b"[sweep]\nmetrik = 'x'", "unknown key 'metrik'"),
    "a sweep over a bad key": (b"[sweep]\nmetric='x'\n[sweep.vary]\nsed=[1]", "sed"),
    "a sweep over bad values": (b"[sweep]\nmetric='x'\n[sweep.vary]\nseed=[-1]", "seed"),
    "a sweep over no list": (b"[sweep]\nmetric='x'\n[sweep.vary]\nevaluate-every=1", "evaluate-every"),
    "a target of 400 digits": (
        b"[sweep]\nmetric='x'\ntargets=[" + b"9" * 400 + b"]\n[sweep.vary]\nevaluate-every=[1]", "different finite numbers"
    ),
    "a target of minus 400 digits": (
        b"[sweep]\nmetric='x'\ntargets=[-" + b"9" * 400 + b"]\n[sweep.vary]\nevaluate-every=[1]", "different finite numbers"
    ),
    "targets of 5,000 hexadecimal digits": (
        b"[sweep]\nmetric='x'\ntargets=[0x" + b"f" * 5000 + b"]\n[sweep.vary]\nevaluate-every=[1]", "finite numbers"
    ),
    "a target that is true": (b"[sweep]\nmetric='x'\ntargets=[true]\n[sweep.vary]\nevaluate-every=[1]", "finite"),
    "targets in targets": (b"[sweep]\nmetric='x'\ntargets=[[1]]\n[sweep.vary]\nevaluate-every=[1]", "finite"),
    "a metric of 5,000 hexadecimal digits": (
        b"[sweep]\nmetric=0x" + b"f" * 5000 + b"\n[sweep.vary]\nevaluate-every=[1]", "must name a metric"
    ),
    "lower in 5,000 hexadecimal digits": (
        b"[sweep]\nmetric='x'\nlower=0x" + b"f" * 5000 + b"\n[sweep.vary]\nevaluate-every=[1]", "true or false"
    ),
    "a sweep of 5,000 hexadecimal digits": (b"sweep = 0x" + b"f" * 5000, "sweep must be a table"),
    "saboteurs after the end": (
        b"system='fedvln'\nnum-rounds=3\n[sabotage]\nclients='0'\nfrom-round=4", "sabotage.from-round: 4, but"
    ),
    "saboteurs of silos after the end": (
        b"system='cdl'\nnum-rounds=3\n[sabotage]\nclients='0'\nfrom-round=1000", "sabotage.from-round: 1000, but"
    ),
    "a target that is a text": (
        b"[sweep]\nmetric='x'\ntargets=['y']\n[sweep.vary]\nevaluate-every=[1]", "target"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BYTES)
def test_a_file_that_is_no_configuration(call: Call, tmp_path: Path, case: str) -> None:
    content, words = BYTES[case]
    assert words in refused(call, tmp_path, content)


LONG = "a" * 300
PLACES: dict[str, tuple[dict[str, Any], str]] = {
    "results-dir is a file": ({"results-dir": "file"}, "file"),
    "results-dir below a file": ({"results-dir": "file/runs"}, "file/runs"),
    "results-dir with a long name": ({"results-dir": LONG}, LONG),
    "results-dir with a long path": ({"results-dir": "a/" * 3000}, "results-dir must be"),
    "results-dir of nobody": ({"results-dir": "~nouser-xyz/runs"}, "results-dir: '~nouser-xyz"),
    "results-dir with a line break": ({"results-dir": "a\nb"}, "results-dir must be text"),
    "results-dir of the kernel": ({"results-dir": "/proc/runs"}, "/proc/runs"),
    "cache-dir is empty": ({"data.cache-dir": ""}, "data.cache-dir must be a text that is not empty"),
    "cache-dir is a file": ({"data.cache-dir": "file"}, "file"),
    "cache-dir below a file": ({"data.cache-dir": "file/cache"}, "file/cache"),
    "cache-dir with a long name": ({"data.cache-dir": LONG}, LONG),
    "cache-dir of nobody": ({"data.cache-dir": "~nouser-xyz"}, "data.cache-dir: '~nouser-xyz"),
    "cache-dir of the kernel": ({"data.cache-dir": "/proc/cache"}, "/proc/cache"),
    "data.dir is a file": ({"data.dir": "file"}, "file"),
    "data.dir is nowhere": ({"data.dir": "nowhere"}, "nowhere"),
    "data.dir with a long name": ({"data.dir": LONG}, LONG),
    "data.dir of nobody": ({"data.dir": "~nouser-xyz"}, "data.dir: '~nouser-xyz"),
    "data.dir with an emoji": ({"data.dir": "\U0001f600"}, "\U0001f600"),
    "data.dir is empty": ({"data.dir": "empty"}, "empty"),
    "roster of nobody": ({"roster": "~nouser-xyz/r.json"}, "roster: '~nouser-xyz"),
}  # fmt: skip
TINY: dict[str, dict[str, Any]] = {
    "fedvln": {"data.generated-seen-houses": 1, "data.generated-unseen-houses": 1, "data.features": "file.tsv"},
    "cdl": {"data.num-silos": 2, "data.train-frames": 2, "data.test-frames": 2, "data.image-size": 40},
    "fedrl": {"data.maps": 20},
}  # fmt: skip


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("case", PLACES)
def test_a_place_that_is_none(call: Call, tmp_path: Path, system: str, case: str) -> None:
    """What has been converted into the cache before the complaint may stay there: nothing else is written."""
    changes, words = PLACES[case]
    for name in ("file", "file.tsv"):
        (tmp_path / name).write_text("not a folder\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.toml").write_text(toml(system, {"num-rounds": 0, **TINY[system], **changes}))
    before = names_of(tmp_path)
    assert words in said(call("run", "x.toml"))
    assert [n for n in names_of(tmp_path) if not n.startswith("data")] == before


STORED: dict[str, bytes] = {
    "nested": b"[" * DEEP,
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "cut": b'{"seed": ',
    "empty": b"",
    "no utf-8": b"\xff\xfe{}",
    "an unknown key": b'{"system": "cdl", "sed": 1}',
    "a wrong type": b'{"system": "cdl", "seed": "x"}',
    "a huge number": b'{"system": "cdl", "seed": ' + b"9" * 400 + b"}",
    "endless digits": b'{"system": "cdl", "seed": ' + b"9" * 5000 + b"}",
    "another system": b'{"system": "nobody"}',
    "a table for a system": b'{"system": {}}',
}


def listed(answer: tuple[int, str, str]) -> str:
    """What `fedsuite runs` says, under its table, of the one run there, which is damaged."""
    code, out, err = answer
    _, row, line = out.splitlines()
    assert (code, err, row.split()) == (0, "", ["old", "damaged"])
    assert line.startswith("old: ") and line.isprintable() and len(line) < LONGEST_LINE
    return line


@pytest.mark.parametrize("case", [*STORED, "a folder"])
@pytest.mark.parametrize("command", ["resume", "show", "runs"])
def test_a_stored_configuration_that_is_none(
    call: Call, tmp_path: Path, command: str, case: str
) -> None:
    run = tmp_path / "runs" / "old"
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps({"status": "completed"}))
    (run / "history.jsonl").write_text("")
    if case in STORED:
        (run / "config.json").write_bytes(STORED[case])
    else:
        (run / "config.json").mkdir()
    before = names_of(tmp_path)
    arguments = {"resume": ("run", "--resume", "old"), "show": ("show", "old"), "runs": ("runs",)}
    answer = call(*arguments[command], engine=command == "resume")
    readable = case in ("an unknown key", "a wrong type", "a huge number") and command != "resume"
    readable |= case in ("another system", "a table for a system") and command == "runs"
    if readable:  # what can be shown is shown
        assert answer[0] == 0 and "Traceback" not in answer[2]
    else:
        line = listed(answer) if command == "runs" else said(answer)
        assert "config.json" in line or "system: " in line
    assert names_of(tmp_path) == before


FILES = [(c, f) for c in ("resume", "show", "runs") for f in ("run.json", "experiment.json")]
FILES += [("show", "history.jsonl"), ("runs", "history.jsonl")]


@pytest.mark.parametrize(("command", "file"), FILES)
@pytest.mark.parametrize("case", ["nested", "a list", "null", "cut", "empty", "no utf-8", "endless digits"])  # fmt: skip
def test_a_file_of_a_run_that_is_damaged(
    call: Call, tmp_path: Path, command: str, case: str, file: str
) -> None:
    run = tmp_path / "runs" / "old"
    run.mkdir(parents=True)
    if file != "experiment.json":
        (run / "history.jsonl").write_text("")
    (run / "config.json").write_text(json.dumps({"system": "cdl"}))
    (run / file).write_bytes(STORED[case] + b"\n")
    before = names_of(tmp_path)
    arguments = {"resume": ("run", "--resume", "old"), "show": ("show", "old"), "runs": ("runs",)}
    answer = call(*arguments[command], engine=command == "resume")
    assert file in (listed(answer) if command == "runs" else said(answer))
    assert [n for n in names_of(tmp_path) if not n.endswith(".lock")] == before


SWEEP = ("sweep", "x.toml", "--vary", "evaluate-every=1", "--metric", "m")
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "a file that is not there": (("run", "no.toml"), "no.toml: no such file"),
    "a folder as file": (("run", "."), "a folder, not a TOML file"),
    "a device as file": (("run", "/dev/zero"), "a pipe or a device, not a TOML file"),
    "a terminal as file": (("run", "/dev/tty"), "/dev/tty"),
    "a long file name": (("run", LONG + ".toml"), LONG),
    "a file of nobody": (("run", "~nouser-xyz/x.toml"), "~nouser-xyz"),
    "nothing at all": (("run",), "give a CONFIG.toml"),
    "set without value": (("run", "x.toml", "--set", "seed"), "--set: expected KEY=VALUE"),
    "set without key": (("run", "x.toml", "--set", "=1"), "--set: expected KEY=VALUE"),
    "set twice": (("run", "x.toml", "--set", "seed=1", "--set", "seed=2"), "seed is given twice"),
    "set an unknown key": (("run", "x.toml", "--set", "sed=1"), "did you mean 'seed'"),
    "set a section": (("run", "x.toml", "--set", "data=1"), "data is a section"),
    "set a line break": (("run", "x.toml", "--set", "name=a\nb"), "name must be"),
    "set half a character": (("run", "x.toml", "--set", "data.dir=\udcff"), "data.dir must be"),
    "set an escape": (("run", "x.toml", "--set", "\x1b[31mred=1"), "unknown key"),
    "resume nothing": (("run", "--resume", "none"), "none: no such run folder"),
    "resume a long name": (("run", "--resume", LONG), LONG),
    "resume of nobody": (("run", "--resume", "~nouser-xyz/a"), "~nouser-xyz"),
    "resume and overwrite": (("run", "--resume", "a", "--overwrite"), "give one of them"),
    "resume and from": (("run", "--resume", "a", "--from", "b"), "give one of them"),
    "no seeds": (("run", "x.toml", "--seeds", ""), "--seeds must be"),
    "seeds of words": (("run", "x.toml", "--seeds", "a,b"), "--seeds must be"),
    "seeds of 5,000 digits": (("run", "x.toml", "--seeds", "9" * 5000), "--seeds must be"),
    "seeds twice": (("run", "x.toml", "--seeds", "1,1"), "--seeds must be"),
    "only nobody": (("run", "x.toml", "--only", "a"), "--only"),
    "from nowhere": (("run", "x.toml", "--from", "none"), "--from"),
    "vary without values": (("sweep", "x.toml", "--vary", "seed"), "--vary"),
    "vary a bad key": (("sweep", "x.toml", "--vary", "sed=1,2", "--metric", "m"), "sed"),
    "vary a bad value": (("sweep", "x.toml", "--vary", "evaluate-every=-1", "--metric", "m"), "evaluate-every"),
    "a target that is a word": ((*SWEEP, "--target", "a"), "target"),
    "a target of 5,000 digits": ((*SWEEP, "--target", "9" * 5000), "target"),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMANDS)
def test_arguments_that_cannot_work(call: Call, tmp_path: Path, case: str) -> None:
    (tmp_path / "x.toml").write_text(toml("cdl", {}))
    arguments, words = COMMANDS[case]
    assert words in said(call(*arguments))
    assert names_of(tmp_path) == ["x.toml"]


@pytest.mark.parametrize("command", ["run", "sweep", "config"])
def test_nobody_waits_for_a_pipe(call: Call, tmp_path: Path, command: str) -> None:
    os.mkfifo(tmp_path / "x.toml")
    line = said(call(command, "x.toml", engine=command != "config"))
    assert "x.toml: a pipe or a device, not a TOML file" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "none"), "none: no such run"),
        (("show", LONG), LONG),
        (("runs", "none"), "none: no such run folder"),
        (("runs", LONG), LONG),
        (("runs", "x.toml"), "x.toml"),
        (("keys", "none"), "unknown"),
        (("keys", "no.such:X"), "cannot be imported"),
        (("config", "no.toml"), "no.toml: no such file"),
        (("config", "."), "a folder, not a TOML file"),
        (("config", "x.toml", "--only", "a"), "--only"),
    ],
)
def test_looking_at_what_is_not_there(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "x.toml").write_text(toml("cdl", {}))
    assert words in said(call(*arguments, engine=False))
    assert names_of(tmp_path) == ["x.toml"]
