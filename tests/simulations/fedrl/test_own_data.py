"""Parties with data of their own: the bytes of a run with whole files, and no party opens, or has, what another one has."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message

from fedsuite.fedrl.gridworld.generator import write_generated
from fedsuite.fedrl.text2action.generated import generate_corpus
from fedsuite.roster.members import read_roster
from fedsuite.runs.folder import RunFolder, folder_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import server_identity
from simulations.server_app import serve
from simulations.systems import settings_of
from tests import fedrl_runs
from tests.harness import recorded, toml_from
from tests.nodes import grid_of, write_node
from tests.watching import SERVER, Opened, forget, watch

Call = Callable[..., tuple[int, str, str]]
ALLOWED = {"allow_systems": ["fedrl", "tests.fedrl_runs:SYSTEM"]}
TEXTS: dict[str, Any] = {
    "world": "text2action", "corpus": "win2k", "max-words": 14, "parallel-episodes": 8,
}  # fmt: skip
VECTORS = "vectors.txt"


def write_texts(file: Path) -> None:
    """Texts of which some words and tags stand in passages alone."""
    document = generate_corpus(0, num_texts=20)
    sentence = document["arg"][3][0]
    sentence["this"][0], sentence["this_pos"][0] = "Zebra", "FW"
    file.write_bytes(gzip.compress(json.dumps(document).encode()))


def write_vectors(file: Path) -> None:
    words = ["zebra", "the", "press", "open", "button", "panel"]
    numbers = np.random.default_rng(0).normal(size=(len(words), 6)).round(3)
    file.write_text(
        "".join(f"{w} {' '.join(map(str, n))}\n" for w, n in zip(words, numbers, strict=True)),
        encoding="utf-8",
    )


def split(call: Call, source: Path, *options: str) -> None:
    done = call("data", "split-parties", str(source), "-o", "own", *options, engine=False)
    assert done[0] == 0, done


def nodes_of(base: Path, parties: tuple[str, ...], **data: str) -> list[Path]:
    """A node for each, whose data are its own; data: of beta alone."""
    return [
        write_node(
            base / "nodes" / party,
            party,
            base / "roster.json",
            data={"dir": str(base / "own" / party), **(data if party == "beta" else {})},
            **ALLOWED,
        )
        for party in parties
    ]


def join(call: Call, base: Path, short: dict[str, Any], files: list[Path]) -> None:
    """roster.json, of what each node says beside its own data."""
    (base / "run.toml").write_text(toml_from(short))
    for file in files:
        part = f"{file.parent.name}.json"
        done = call("data", "prepare-node", str(file), "run.toml", "--out", part, engine=False)
        assert done[0] == 0, done
    parts = [f"{file.parent.name}.json" for file in files]
    done = call("data", "make-roster", *parts, "--out", "roster.json", engine=False)
    assert done[0] == 0, done


def deploy_watched(config: dict[str, Any], files: list[Path]) -> tuple[RunFolder, Opened]:
    """A whole run, every node with nothing in memory; what each of them opened."""
    known: set[str] = set()

    def answer(message: Message, context: Context) -> Message:
        name = Path(str(context.node_config["node"])).parent.name
        if name not in known:
            known.add(name)
            forget()
        with watch.acting(name):
            return client_app(message, context)

    grid = grid_of(config, files)
    grid.client_app = answer
    forget()
    with watch.on() as opened, server_identity():
        serve(grid, config)
    return folder_of(settings_of(config)[1]), opened


def check_run(
    call: Call, base: Path, short: dict[str, Any], files: list[Path], **whole: Any
) -> None:
    """Run with whole files and with each party's own: equal bytes, and every party opens its own data alone."""
    places = {"cache-dir": str(base / "cache"), "results-dir": str(base / "all"), "name": "run"}
    from_all = fedrl_runs.config_from({**short, **places, "data-dir": str(base), **whole})
    recorded(from_all)
    join(call, base, {**short, "data-dir": "/of/the/server"}, files)
    there = {
        "fedrl.data.dir": "/of/the/server",
        "fedrl.data.cache-dir": "/of/the",
        "fedrl.data.word-vectors": "",
    }
    server = {"results-dir": str(base / "server"), "roster": str(base / "roster.json")}
    done, opened = deploy_watched({**from_all, **there, **server}, files)
    for name in ("model.safetensors", "history.jsonl"):
        assert (done.path / name).read_bytes() == (base / "all" / "run" / name).read_bytes(), name
    data = {p for p in base.rglob("*") if p.is_file() and p.suffix in (".npz", ".gz", ".txt")}
    for party in (f.parent.name for f in files):
        mine = {p for p in data if p.is_relative_to(base / "own" / party)}
        cache = {p for p in data if p.is_relative_to(base / "nodes" / party)}
        vectors = {base / VECTORS} if party == "beta" and whole else set()
        assert mine <= opened[party] and opened[party] & data <= mine | cache | vectors, party
    assert not opened[SERVER] & data


@pytest.mark.parametrize("starts", ["exact", "shifted"])
def test_maps(tmp_path: Path, call: Call, starts: str) -> None:
    source = tmp_path / "frl_grid_8.npz"
    write_generated(source, 200, 8, seed=0)
    split(call, source, "--parties", "3")
    short = {**fedrl_runs.TINY, "parties": 3, "parallel-episodes": 8, "starts": starts}
    del short["step-limit"]  # it follows from the longest path
    check_run(call, tmp_path, short, nodes_of(tmp_path, ("alpha", "beta", "gamma")))
    for party in ("beta", "gamma"):
        with np.load(tmp_path / "own" / party / source.name) as file:
            agents = {"beta": ["beta"], "gamma": ["alpha", "beta"]}[party]
            starts_of = {f"{rule}_{a}" for rule in ("exact", "shifted") for a in agents}
            assert set(file.files) == {"party", "maps", "longest", *starts_of}
    members = read_roster(tmp_path / "roster.json").members
    assert [m.name for m in members] == ["alpha", "beta", "gamma"]


@pytest.mark.parametrize(
    ("task", "vectors"), [("names", True), ("arguments", False), ("arguments", True)]
)
def test_texts(tmp_path: Path, call: Call, task: str, vectors: bool) -> None:
    source = tmp_path / "t2a_win2k.json.gz"
    write_texts(source)
    write_vectors(tmp_path / VECTORS)
    split(call, source, "--task", task)
    short = {**fedrl_runs.TINY, **TEXTS, "task": task}
    del short["step-limit"]
    given = {"word_vectors": str(tmp_path / VECTORS)} if vectors else {}
    files = nodes_of(tmp_path, ("alpha", "beta"), **given)
    check_run(
        call, tmp_path, short, files, **({"word-vectors": given["word_vectors"]} if given else {})
    )
    alpha, beta = (read(tmp_path / "own" / p / source.name) for p in ("alpha", "beta"))
    passages = [p for row in beta.get("arg", []) for p in row if p]
    told = {key for p in (*beta["texts"], *passages) for key in p}
    assert told == {"words", "acts"} and {k for p in alpha["texts"] for k in p} == {"tags", "acts"}
    assert [act for text in beta["texts"] for act in text["acts"]] == []
    assert all(act.keys() == {"i"} for p in passages for act in p["acts"])
    assert ("arg" in beta) == (task == "arguments") and "Zebra" not in json.dumps(alpha)
    assert "FW" not in json.dumps(beta)


def read(file: Path) -> dict[str, Any]:
    document = json.loads(gzip.decompress(file.read_bytes()))
    assert isinstance(document, dict)
    return document


# --- refusals -------------------------------------------------------------------------------------


def test_data_of_another_party_are_refused(tmp_path: Path, call: Call) -> None:
    write_generated(tmp_path / "frl_grid_8.npz", 100, 8, seed=0)
    split(call, tmp_path / "frl_grid_8.npz")
    files = nodes_of(tmp_path, ("alpha", "beta"))
    (tmp_path / "own" / "beta").rename(tmp_path / "own" / "gone")
    (tmp_path / "own" / "alpha").rename(tmp_path / "own" / "beta")
    (tmp_path / "own" / "gone").rename(tmp_path / "own" / "alpha")
    short = {**fedrl_runs.TINY, "data-dir": "/there"}
    (tmp_path / "run.toml").write_text(toml_from(short))
    code, _, err = call("data", "prepare-node", str(files[0]), "run.toml", engine=False)
    assert code == 2 and "frl_grid_8.npz: holds what beta alone may have, asked for is what" in err
    # A simulation plays all parties, so it needs the whole file.
    own = tmp_path / "own" / "alpha"
    code, _, err = call("run", "run.toml", "--set", f"data.dir={own}")
    assert code == 2 and "holds what beta alone may have" in err and err.count("\n") == 1
    code, _, err = call(
        "data", "split-parties", str(own / "frl_grid_8.npz"), "-o", "again", engine=False
    )
    assert code == 2 and "name the file that it was split from" in err
    assert not (tmp_path / "again").exists()


def test_texts_that_were_split_for_another_task_are_refused(tmp_path: Path, call: Call) -> None:
    write_texts(tmp_path / "t2a_win2k.json.gz")
    split(call, tmp_path / "t2a_win2k.json.gz")
    short = {**fedrl_runs.TINY, **TEXTS, "task": "arguments", "data-dir": "/there"}
    del short["step-limit"]
    (tmp_path / "run.toml").write_text(toml_from(short))
    (file,) = nodes_of(tmp_path, ("beta",))
    code, _, err = call("data", "prepare-node", str(file), "run.toml", engine=False)
    assert code == 2 and "was split for the task names, the run's (world.task) is arguments" in err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("frl_grid_8.npz --task names", "--task: texts alone have one"),
        ("t2a_win2k.json.gz --parties 3", "--parties: texts have two parties"),
        ("none.npz", "none.npz: no such file"),
        ("none.json.gz", "none.json.gz: no such file"),
        ("run.toml", "run.toml: expected maps (frl_grid_N.npz) or texts"),
    ],
)
def test_what_cannot_be_split(tmp_path: Path, call: Call, options: str, complaint: str) -> None:
    write_generated(tmp_path / "frl_grid_8.npz", 20, 8, seed=0)
    write_texts(tmp_path / "t2a_win2k.json.gz")
    code, _, err = call("data", "split-parties", *options.split(), "-o", "own", engine=False)
    assert code == 2 and complaint in err and err.count("\n") == 1, err
    assert not (tmp_path / "own").exists()


def _start(arrays: dict[str, Any], value: int) -> None:
    played = np.flatnonzero(arrays["exact_beta"][:, 0] != 255)
    arrays["exact_beta"][played[0]] = value


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda a: a.update(party=np.array("delta")), "party: expected beta or gamma, got 'delta'"),
        (lambda a: a.update(longest=np.int64(0)), "longest: expected a path's cells, got 0"),
        (lambda a: a.pop("shifted_beta"), "shifted_beta"),
        (lambda a: _start(a, 0), "exact_beta: a start lies outside of its map"),
        (lambda a: a["maps"].fill(0), "exact_beta: a start lies in an obstacle"),
        (lambda a: a.update(exact_beta=a["exact_beta"][1:]), "exact_beta: expected shape"),
    ],
)
def test_damaged_maps_are_told(
    tmp_path: Path, call: Call, damage: Callable[[dict[str, Any]], object], complaint: str
) -> None:
    write_generated(tmp_path / "frl_grid_8.npz", 40, 8, seed=0)
    split(call, tmp_path / "frl_grid_8.npz")
    file = tmp_path / "own" / "beta" / "frl_grid_8.npz"
    with np.load(file) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    damage(arrays)
    np.savez(file, **arrays)
    (tmp_path / "run.toml").write_text(toml_from({**fedrl_runs.TINY, "data-dir": "/there"}))
    (node,) = nodes_of(tmp_path, ("beta",))
    code, _, err = call("data", "prepare-node", str(node), "run.toml", engine=False)
    assert code == 2 and complaint in err and str(file) in err and err.count("\n") == 1, err


@pytest.mark.parametrize(
    ("party", "damage", "complaint"),
    [
        ("alpha", lambda d: d["known"].pop(1), "known: expected every tag once"),
        ("alpha", lambda d: d["texts"][2]["acts"][0].update(t=4), "acts[0].t: expected 1, 2 or 3"),
        (
            "beta",
            lambda d: d.update(task="verbs"),
            "task: expected names or arguments, got 'verbs'",
        ),
        ("beta", lambda d: d["texts"][2].update(words=["a", ""]), "texts[2]: expected words, none"),
        ("beta", lambda d: d["folds"].pop(), "folds: expected 5 lists, got 4"),
        ("beta", lambda d: d["arg"].pop(), "arg: expected 20 entries, got 19"),
        ("beta", lambda d: d["texts"].clear(), "texts: expected at least one text"),
    ],
)
def test_damaged_texts_are_told(
    tmp_path: Path,
    call: Call,
    party: str,
    damage: Callable[[dict[str, Any]], object],
    complaint: str,
) -> None:
    write_texts(tmp_path / "t2a_win2k.json.gz")
    split(
        call, tmp_path / "t2a_win2k.json.gz", "--task", "arguments" if party == "beta" else "names"
    )
    file = tmp_path / "own" / party / "t2a_win2k.json.gz"
    document = read(file)
    damage(document)
    file.write_bytes(gzip.compress(json.dumps(document).encode()))
    (tmp_path / "run.toml").write_text(
        toml_from({**fedrl_runs.TINY, **TEXTS, "data-dir": "/there"})
    )
    (node,) = nodes_of(tmp_path, (party,))
    code, _, err = call("data", "prepare-node", str(node), "run.toml", engine=False)
    assert code == 2 and complaint in err and str(file) in err and err.count("\n") == 1, err
