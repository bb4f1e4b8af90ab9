"""Data sets with one file damaged: a line that names the file, before anything is trained; or all is read as it was."""

import builtins
import errno
import importlib
import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.errors import InputError, one_line, refused
from fedsuite.randomness import rng_for
from fedsuite.settings.config import read_config
from fedsuite.storage.progress import silent
from simulations.systems import Node, load_system
from tests.cdl_runs import write_drives
from tests.conftest import SCANS, features_of, write_data

Damage = Callable[[Path], object]


def _bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _cut(share: float) -> Damage:
    return _bytes(lambda data: data[: int(share * len(data))])


def _noise(data: bytes) -> bytes:
    """A hundred bytes in the middle."""
    half = len(data) // 2
    return data[:half] + rng_for(0, "noise").bytes(100) + data[half + 100 :]


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    """Whoever opens it waits for somebody who writes."""
    path.unlink()
    os.mkfifo(path)


CLOSED: set[str] = set()  # files that may not be read


@pytest.fixture(autouse=True)
def _bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rights bind, which they do not for root; and nothing waits for ever."""

    def guarded(opens: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, *given: Any, **named: Any) -> Any:
            if not isinstance(file, int) and os.fsdecode(file) in CLOSED:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fsdecode(file))
            return opens(file, *given, **named)

        return opened

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "scandir")):
        monkeypatch.setattr(module, name, guarded(getattr(module, name)))
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    CLOSED.clear()


ANY: dict[str, Damage] = {
    "closed": lambda path: CLOSED.add(str(path)),
    "a pipe": _pipe,
    "empty": _cut(0),
    "one byte": _bytes(lambda data: data[:1]),
    **{f"cut at {share}": _cut(share) for share in (0.05, 0.35, 0.7, 0.98)},
    "noise inside": _bytes(_noise),
    "zeros": _bytes(lambda data: bytes(len(data))),
    "no utf-8": _bytes(lambda data: b"\xff\xfe" + data),
    "text": lambda path: path.write_text("hello\n"),
    "html": lambda path: path.write_text("<html><body>404 Not Found</body></html>\n"),
    "a folder": _folder,
    "gone": lambda path: path.unlink(),
    "a link to nowhere": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
}


def _json(change: Callable[[Any], Any]) -> Damage:
    """Another content; what is changed in place may return nothing."""

    def damage(path: Path) -> None:
        content = json.loads(path.read_text(encoding="utf-8"))
        after = change(content)
        path.write_text(json.dumps(content if after is None else after), encoding="utf-8")

    return damage


def _set(key: str, value: Any) -> Damage:
    """The first entry's key."""
    return _json(lambda rows: rows[0].__setitem__(key, value))


JSON: dict[str, Damage] = {
    "null": _json(lambda _: json.loads("null") or [None]),
    "a number": _json(lambda _: 7),
    "a text": _json(lambda _: "oak"),
    "an object": _json(lambda _: {"a": 1}),
    "nested": lambda path: path.write_text("[" * 100_000),
    "endless digits": lambda path: path.write_text("[" + "9" * 5000 + "]"),
    "no entries": _json(lambda _: []),
    "numbers for entries": _json(lambda rows: [1, 2, 3]),
    "one entry that is a list": _json(lambda rows: [[], *rows[1:]]),
    "an entry twice": _json(lambda rows: [*rows, rows[0]]),
}
GRAPH: dict[str, Damage] = {
    "no pose": _json(lambda rows: rows[0].pop("pose")and None),
    "a short pose": _set("pose", [0.0] * 15),
    "a pose of texts": _set("pose", ["x"] * 16),
    "a pose without end": _set("pose", [float("nan")] * 16),
    "a pose of huge numbers": _set("pose", [10**400] * 16),
    "no name": _set("image_id", None),
    "a number for a name": _set("image_id", 5),
    "another's name": _set("image_id", "oak-3"),
    "flags of texts": _set("unobstructed", ["yes"] * 13),
    "too few flags": _set("unobstructed", [True]),
    "flags that are numbers": _set("unobstructed", [7] * 13),
    "included is a text": _set("included", "yes"),
    "all flags gone": _json(lambda rows: [row.update(unobstructed=[False] * 13) for row in rows] and None),
    "nothing included": _json(lambda rows: [row.update(included=False) for row in rows] and None),
}  # fmt: skip
PATHS: dict[str, Damage] = {
    "no scan": _json(lambda rows: rows[0].pop("scan") and None),
    "an unknown scan": _set("scan", "palace"),
    "a scan that leads elsewhere": _set("scan", "../oak"),
    "a number for a scan": _set("scan", 5),
    "a list for a scan": _set("scan", ["oak"]),
    "no path": _set("path", []),
    "a path of numbers": _set("path", [1, 2]),
    "a text for a path": _set("path", "oak-0"),
    "an unknown viewpoint": _set("path", ["oak-99", "oak-0"]),
    "a jump": _set("path", ["oak-0", "oak-11"]),
    "a heading of text": _set("heading", "north"),
    "no heading": _set("heading", None),
    "a heading without end": _set("heading", float("inf")),
    "no instructions": _set("instructions", []),
    "an empty instruction": _set("instructions", [" "]),
    "numbers for instructions": _set("instructions", [1, 2, 3]),
    "a text for instructions": _set("instructions", "walk"),
    "a path_id of two lines": _set("path_id", "fir\nst"),
    "half a path_id": _set("path_id", 0.5),
    "an item of R4R": _set("first_path_id", 1),
    "an item of REVERIE": _set("objId", 12),
    "a path that comes back": _json(lambda rows: rows[0].update(path=rows[0]["path"] + rows[0]["path"][-2::-1]) and None),
    "half a character": _set("instructions", ["walk \ud800 on", "walk on", "turn left"]),
    "half a character in a name": _set("scan", "oak\udc00"),
    "a heading of 400 digits": _set("heading", 10**400),
    "no path_id": _set("path_id", None),
}  # fmt: skip


def _line(change: Callable[[list[str]], list[str]]) -> Damage:
    """Another first line of a TSV, column by column."""

    def damage(path: Path) -> None:
        first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text(
            "\t".join(change(first.rstrip("\n").split("\t"))) + "\n" + "".join(rest),
            encoding="utf-8",
        )

    return damage


def _values(change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    import base64

    def columns(row: list[str]) -> list[str]:
        numbers = np.frombuffer(base64.b64decode(row[5]), np.float32)
        return [*row[:5], base64.b64encode(change(numbers).tobytes()).decode()]

    return _line(columns)


def _again(change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    """The first line once more at the end, with other values."""

    def damage(path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        _values(change)(path)
        other = path.read_text(encoding="utf-8").splitlines(keepends=True)[0]
        path.write_text("".join([*lines, other]), encoding="utf-8")

    return damage


TSV: dict[str, Damage] = {
    "a panorama twice, otherwise": _again(lambda v: v + 1),
    "a panorama twice, in one number": _again(lambda v: np.append(v[:-1], v[-1] + 1)),
    "a panorama twice, the same": _again(lambda v: v),
    "a column less": _line(lambda row: row[:5]),
    "a column more": _line(lambda row: [*row, "x"]),
    "no base64": _line(lambda row: [*row[:5], "!" + row[5][1:]]),
    "a value less": _values(lambda v: v[:-1]),
    "a view less": _values(lambda v: v[: -len(v) // 36]),
    "one view": _values(lambda v: v[:36]),
    "a NaN": _values(lambda v: np.append(v[:-1], np.float32(np.nan))),
    "an infinity": _values(lambda v: np.append(v[:-1], np.float32(np.inf))),
    "doubles": _values(lambda v: v.astype(np.float64)),
    "a viewpoint of nobody": _line(lambda row: [row[0], "nobody", *row[2:]]),
    "a scan that leads elsewhere": _line(lambda row: ["../oak", *row[1:]]),
    "a line less": _bytes(lambda data: data[data.index(b"\n") + 1 :]),
    "an empty line": _bytes(lambda data: b"\n" + data),
}


def _saved(values: Callable[[np.ndarray], np.ndarray]) -> Damage:
    return lambda path: np.save(path, values(np.load(path)))


def _header(old: bytes, new: bytes) -> Damage:
    return _bytes(lambda data: data.replace(old, new, 1))


NPY: dict[str, Damage] = {
    "doubles": _saved(lambda v: v.astype(np.float64)),
    "halves": _saved(lambda v: v.astype(np.float16)),
    "texts": _saved(lambda v: v.astype("<U4")),
    "an axis less": _saved(lambda v: v[0]),
    "a panorama less": _saved(lambda v: v[1:]),
    "a view less": _saved(lambda v: v[:, 1:]),
    "narrower": _saved(lambda v: v[:, :, 1:]),
    "no width": _saved(lambda v: v[:, :, :0]),
    "a NaN": _saved(lambda v: np.where(v == v.max(), np.nan, v).astype(np.float32)),
    "objects": lambda path: np.save(path, np.array([{}]), allow_pickle=True),
    "a header that lies of more": _header(b"(13, 36", b"(99, 36"),
    "a header that lies of less": _header(b"(13, 36", b"( 1, 36"),
    "a header of another type": _header(b"<f4", b"<f8"),
    "a header of no type": _header(b"<f4", b"<q9"),
    "a header without end": _header(b"}", b" "),
    "negative lengths": _header(b"(13, 36", b"(-1, 36"),
    "another version": _bytes(lambda data: data[:6] + b"\x09" + data[7:]),
}
KEY = "oak_oak-3"


def _entry(change: Callable[[Any, np.ndarray], object]) -> Damage:
    """Another entry of this key; `change` gets the file and what stood there."""

    def damage(path: Path) -> None:
        import h5py

        with h5py.File(path, "a") as file:
            values = file.pop(KEY)[()]
            change(file, values)

    return damage


def _put(change: Callable[[np.ndarray], Any]) -> Damage:
    return _entry(lambda file, values: file.__setitem__(KEY, change(values)))


def _made(**about: Any) -> Damage:
    """An array that is described, but never written."""
    return _entry(lambda file, _: file.create_dataset(KEY, **about))


def _link(kind: str, *target: str) -> Damage:
    import h5py

    return _put(lambda _: getattr(h5py, kind)(*target))


def _elsewhere(path: Path) -> None:
    """A virtual array over a file that is gone, which HDF5 reads as zeros."""
    import h5py

    layout = h5py.VirtualLayout((36, 8), "f4")
    layout[:] = h5py.VirtualSource("gone.hdf5", "x", (36, 8))
    with h5py.File(path, "a") as file:
        del file[KEY]
        file.create_virtual_dataset(KEY, layout)


def _half_written(file: Any, values: np.ndarray) -> None:
    half = file.create_dataset(KEY, values.shape, "f4", chunks=(1, values.shape[1]))
    half[:18] = values[:18]


def _linked(path: Path) -> None:
    """A good array, in another file."""
    shutil.copy(path, path.with_name("other.hdf5"))
    _link("ExternalLink", "other.hdf5", f"/{KEY}")(path)


ENTRIES: dict[str, Damage] = {
    "a number": _put(lambda _: np.float32(3)),
    "a text": _put(lambda _: "oak"),
    "nothing": _made(dtype="f4"),
    "a group": _entry(lambda file, _: file.create_group(KEY)),
    "a type": _put(lambda _: np.dtype("f4")),
    "a link to nowhere inside": _link("SoftLink", "/nowhere"),
    "a link to itself inside": _link("SoftLink", f"/{KEY}"),
    "a link to another file": _linked,
    "a link to no file": _link("ExternalLink", "gone.hdf5", "/x"),
    "a link to a device": _link("ExternalLink", "/dev/zero", "/x"),
    "numbers in another file": _made(shape=(36, 8), dtype="f4", external=[("gone.raw", 0, 1152)]),
    "a view of another file": _elsewhere,
    "never written": _made(shape=(36, 8), dtype="f4"),
    "written by half": _entry(_half_written),
    "texts": _put(lambda v: v.astype("S4")),
    "objects": _put(lambda v: np.full(v.shape, "x", object)),
    "halves": _put(lambda v: v.astype(np.float16)),
    "doubles": _put(lambda v: v.astype(np.float64)),
    "whole numbers": _put(lambda v: v.astype(np.int32)),
    "the other byte order": _put(lambda v: v.astype(">f4")),
    "complex numbers": _put(lambda v: v.astype(complex)),
    "truths": _put(lambda v: v > 0),
    "pairs": _put(lambda v: np.zeros(v.shape, [("a", "f4"), ("b", "f4")])),
    "a view less": _put(lambda v: v[:-1]),
    "an axis less": _put(lambda v: v.ravel()),
    "an axis more": _put(lambda v: v[None]),
    "narrower": _put(lambda v: v[:, 1:]),
    "no width": _put(lambda v: v[:, :0]),
    "endless width": _made(shape=(36, 2**40), dtype="f4", chunks=(1, 1024)),
    "endless views": _made(shape=(2**40, 8), dtype="f4", chunks=(1, 8)),
    "a NaN": _put(lambda v: np.where(v == v.max(), np.nan, v).astype(np.float32)),
    "gone": _entry(lambda file, _: None),
}  # fmt: skip
NO_TEXT = _entry(lambda file, values: file.__setitem__(b"oak_\xff\xfe", values))
# kind, its file, its damages, and those of them that nobody can tell from other data
KINDS: dict[str, tuple[str, dict[str, Damage], tuple[str, ...]]] = {
    "graph": ("connectivity/oak_connectivity.json", ANY | JSON | GRAPH, ()),
    "paths": ("annotations/R2R_train.json", ANY | JSON | PATHS, ()),
    "unseen paths": ("annotations/R2R_val_unseen.json", ANY | JSON, ("no entries",)),
    "features": ("features.tsv", ANY | TSV, ("a panorama twice, the same",)),
    "views": ("views/oak.npy", ANY | NPY, ("noise inside",)),
    "hdf5": ("features.hdf5", ANY, ("noise inside",)),
}
CASES = [(kind, case) for kind, (_, damages, _) in KINDS.items() for case in damages]


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three houses, their features as TSV, HDF5 and prepared folder."""
    import h5py

    from fedsuite.vln.data.graph import load_graph
    from fedsuite.vln.data.prepare import prepare_views

    root = write_data(tmp_path_factory.mktemp("houses"))
    prepare_views(root / "features.tsv", root / "connectivity", root / "views")
    with h5py.File(root / "features.hdf5", "w") as file:
        for scan in SCANS:
            for name in load_graph(root / "connectivity", scan).viewpoint_ids:
                file[f"{scan}_{name}"] = features_of(scan, name)
    return root


def read_all(system: str, keys: dict[str, Any], folder: Path) -> str:
    """The line that refuses these data; "" if all clients have opened theirs."""
    own = load_system(system)
    settings = read_config(own.config_class, keys)
    try:
        own.validate(settings)
        roster = own.prepare(settings, silent)
        own.make_strategy(settings, roster)
        for partition, name in enumerate(roster.names):
            own.make_client(settings, Node(roster, partition, folder / name)).get_properties({})
    except InputError as error:
        return str(error)
    except OSError as error:  # as the command line says it
        return str(refused(error))
    return ""


TINY = {"agent.hidden-size": 8, "agent.word-embedding-size": 4, "data.min-word-count": 1}


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_a_damaged_file_of_houses_is_named(
    houses: Path, tmp_path: Path, kind: str, case: str
) -> None:
    name, damages, harmless = KINDS[kind]
    data = tmp_path / "data"
    shutil.copytree(houses, data)
    damages[case](data / name)
    features = {"views": "views", "hdf5": "features.hdf5"}.get(kind, "features.tsv")
    keys = {"data.dir": str(data), "data.features": str(data / features), **TINY}
    line = read_all("fedvln", {**keys, "data.cache-dir": str(tmp_path / "cache")}, tmp_path)
    if case in harmless:
        assert line == ""
        return
    stem = Path(name).stem.removesuffix("_connectivity")
    assert stem in line and line == one_line(line, 2000), line
    assert str(data) in line or "data.features" in line, line
    left = {p.name.split("-")[0] for p in (tmp_path / "cache").glob("[!.]*")}
    assert left <= {"houses", "views", "finite"}


@pytest.mark.parametrize("case", [*ENTRIES, "no text"])
def test_a_bad_entry_of_hdf5_is_named(houses: Path, tmp_path: Path, case: str) -> None:
    """With the file, before any view is converted."""
    from fedsuite.vln.data.prepare import prepare_views

    file = tmp_path / "features.hdf5"
    shutil.copy(houses / "features.hdf5", file)
    ENTRIES.get(case, NO_TEXT)(file)
    with pytest.raises(InputError) as refusal:
        prepare_views(file, houses / "connectivity", tmp_path / "out")
    line = str(refusal.value)
    assert line.startswith(f"{file}: ") and line == one_line(line, 2000), line
    named = {"no text": "b'oak_", "gone": "1 panoramas of oak are missing (first: oak-3)"}
    assert named.get(case, f"{file}: {KEY} ") in line, line


@pytest.mark.parametrize("kind", ["<f2", "<f8", ">f4"])
def test_hdf5_of_another_type_throughout_is_read_as_it_is(
    houses: Path, tmp_path: Path, kind: str
) -> None:
    import h5py

    from fedsuite.vln.data.prepare import prepare_views

    with h5py.File(tmp_path / "x.hdf5", "w") as file, h5py.File(houses / "features.hdf5") as good:
        for key in good:
            file[key] = good[key][()].astype(kind)
    prepare_views(tmp_path / "x.hdf5", houses / "connectivity", tmp_path / "out")
    for scan in SCANS:
        want = np.load(houses / "views" / f"{scan}.npy").astype(kind).astype(np.float32)
        np.testing.assert_array_equal(np.load(tmp_path / "out" / f"{scan}.npy"), want)


# What HDF5 begins its structures with: superblock, B-trees, their leaves, names, and the root group's header.
STRUCTURES = {"superblock": b"\x89HDF", "tree": b"TREE", "leaf": b"SNOD", "names": b"HEAP"}


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_damaged_metadata_of_hdf5_are_named_or_do_no_harm(
    houses: Path, tmp_path: Path, structure: str, change: int
) -> None:
    from fedsuite.vln.data.prepare import prepare_views

    data = (houses / "features.hdf5").read_bytes()
    start, refused_ones = data.index(STRUCTURES[structure]), 0
    for at in range(start, start + 48, 3):
        file, out = tmp_path / f"{at}.hdf5", tmp_path / f"out-{at}"
        file.write_bytes(data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
        try:
            prepare_views(file, houses / "connectivity", out)
        except InputError as error:
            assert str(error).startswith(f"{file}: ") and str(error) == one_line(str(error), 2000)
            refused_ones += 1
            continue
        for scan in SCANS:
            assert (out / f"{scan}.npy").read_bytes() == (
                houses / "views" / f"{scan}.npy"
            ).read_bytes()
    assert refused_ones


@pytest.mark.parametrize("share", [0.001, 0.01, 0.2, 0.5, 0.9, 0.9999])
def test_hdf5_that_ends_early_is_named(houses: Path, tmp_path: Path, share: float) -> None:
    from fedsuite.vln.data.prepare import prepare_views

    file = tmp_path / "features.hdf5"
    shutil.copy(houses / "features.hdf5", file)
    _cut(share)(file)
    with pytest.raises(InputError, match=r"features\.hdf5: cannot be read as HDF5 .*truncated"):
        prepare_views(file, houses / "connectivity", tmp_path / "out")


CACHED = {
    "manifest.json": ANY | {k: JSON[k] for k in ("a number", "a text", "an object", "nested", "endless digits")},
    "vocabulary.json": ANY | {k: JSON[k] for k in ("a number", "an object", "no entries", "numbers for entries")},
    "oak/episodes.json": ANY | {k: JSON[k] for k in ("a number", "a text", "no entries", "numbers for entries")},
}  # fmt: skip


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, found in CACHED.items() for c in found])
def test_a_damaged_file_of_the_cache_is_named(
    houses: Path, tmp_path: Path, name: str, case: str
) -> None:
    """With the cure, which destroys nothing and works."""
    cache = tmp_path / "cache"
    keys = {"data.dir": str(houses), "data.features": str(houses / "views"), **TINY}
    keys |= {"data.cache-dir": str(cache)}
    assert read_all("fedvln", keys, tmp_path) == ""
    (prepared,) = cache.glob("houses-*")
    CACHED[name][case](prepared / name)
    from fedsuite.vln.data.dataset import load_vocabulary
    from fedsuite.vln.data.sources import open_sources
    from simulations.fedvln.client import _open_site

    for cached in (load_vocabulary, open_sources, _open_site):
        cached.cache_clear()
    line = read_all("fedvln", keys, tmp_path)
    assert str(prepared) in line and Path(name).stem in line, line
    assert "move the folder houses-... away" in line or "see to the path" in line
    CLOSED.clear()
    prepared.rename(tmp_path / "away")
    assert read_all("fedvln", keys, tmp_path) == ""


NETWORKS: dict[str, Any] = {
    "a number": 7, "a text": "ring", "nothing": None, "no rows": [], "rows of texts": [["a"]], "a row of numbers": [1, 2],
    "not square": [[1, 0], [1, 0], [1, 0]], "a NaN": [[float("nan"), 1], [0, 1]], "negative": [[2, -1], [0, 1]],
    "a list in a row": [[[1], 0], [0, 1]], "a huge number": [[10**400, 1], [0, 1]], "an object in it": [[{}, 1], [1, 0]],
    "no links": {"nodes": ["a", "b"]}, "links of text": {"nodes": ["a", "b"], "links": "ab"},
    "a link to nobody": {"nodes": ["a", "b"], "links": [[0, 9, 1]]},
    "a link to itself": {"nodes": ["a", "b"], "links": [[1, 1, 1]]},
    "a link of texts": {"nodes": ["a", "b"], "links": [["a", "b", 1]]},
    "a link of truths": {"nodes": ["a", "b"], "links": [[False, 1.5, 1]]},
    "a negative way": {"nodes": ["a", "b"], "links": [[0, 1, -5]]},
    "a huge way": {"nodes": ["a", "b"], "links": [[0, 1, 10**400]]},
    "two islands": {"nodes": ["a", "b", "c"], "links": [[0, 1, 5]]},
    "a name twice": {"nodes": ["a", "a"], "links": [[0, 1, 5]]},
    "no nodes": {"nodes": [], "links": []},
    "half a position": {"nodes": [["a", 1, 2], ["b"]], "links": [[0, 1, 5]]},
    "a matrix of nothing": {"matrix": None}, "labels of a number": {"matrix": [[1, 1], [1, 1]], "labels": 5},
    "too few labels": {"matrix": [[1, 1], [1, 1]], "labels": ["a"]},
    "labels of lists": {"matrix": [[1, 1], [1, 1]], "labels": [["a"], ["a"]]},
}  # fmt: skip
TEXTS = {
    "nested": "[" * 100_000, "endless digits": "[[" + "9" * 5000 + ",1],[0,1]]", "empty": "", "a brace": "{",
    "a NUL": "\0",
}  # fmt: skip


@pytest.mark.parametrize("case", [*NETWORKS, *TEXTS, *(c for c in ANY if c not in TEXTS)])
def test_a_network_that_is_none_is_named(tmp_path: Path, case: str) -> None:
    file = tmp_path / "own.json"
    if case in ANY and case not in TEXTS:
        file.write_text(json.dumps([[0.5, 0.5], [0.5, 0.5]]))
        ANY[case](file)
    else:
        file.write_text(TEXTS.get(case) or (json.dumps(NETWORKS[case]) if case in NETWORKS else ""))
    keys = {"federation.scenario": "custom", "federation.underlay-file": str(file)}
    line = read_all("cdl", {**keys, "data.num-silos": 2, "data.image-size": 40}, tmp_path)
    assert str(file) in line and line == one_line(line, 2000), line


@pytest.mark.parametrize("case", ANY)
def test_a_matrix_of_commas_that_is_none_is_named(tmp_path: Path, case: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text("a,b\n0.5,0.5\n0.5,0.5\n")
    ANY[case](file)
    keys = {"federation.scenario": "custom", "federation.underlay-file": str(file)}
    line = read_all("cdl", {**keys, "data.num-silos": 2, "data.image-size": 40}, tmp_path)
    if case == "cut at 0.98":  # the last line end
        assert line == ""
        return
    assert str(file) in line and line == one_line(line, 2000), line


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the maps of a run on generated ones."""
    cache = tmp_path_factory.mktemp("maps")
    assert read_all("fedrl", {"data.maps": 20, "data.cache-dir": str(cache)}, cache) == ""
    (file,) = cache.rglob("*.npz")
    (cache / "own").mkdir()
    shutil.copy(file, cache / "own" / "frl_grid_8.npz")
    return cache / "own"


def _npz(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Damage:
    def damage(path: Path) -> None:
        with np.load(path) as stored:
            arrays = dict(stored)
        np.savez(path, **(arrays | {name: change(arrays[name])}))

    return damage


GUIDE = {
    "instruction_id": 1, "language": "en-US", "path_id": 2, "scan": "oak", "path": ["oak-0"], "heading": 0.5,
    "instruction": "walk on",
}  # fmt: skip
GUIDES: dict[str, dict[str, Any]] = {
    "a heading of 400 digits": {"heading": 10**400},
    "a heading of minus 400 digits": {"heading": -(10**400)},
    "a heading that is true": {"heading": True},
    "a path_id of 400 digits": {"path_id": 10**400},
    "an instruction_id of 400 digits": {"instruction_id": 10**400},
    "half a character": {"instruction": "walk \ud800 on"},
    "half a character in a viewpoint": {"path": ["oak-\udfff"]},
}


@pytest.mark.parametrize("case", GUIDES)
def test_a_bad_guide_is_named_at_once(tmp_path: Path, case: str) -> None:
    from fedsuite.vln.data.rxr import read_guides

    file = tmp_path / "rxr_train_guide.jsonl"
    file.write_text(
        f"{json.dumps(GUIDE)}\n{json.dumps({**GUIDE, 'instruction_id': 2, **GUIDES[case]})}\n"
    )
    with pytest.raises(InputError) as refusal:
        read_guides(file, "en")
    line = str(refusal.value)
    assert line.startswith(f"{file}: line 2") and line == one_line(line, 2000), line


MAPS: dict[str, Damage] = ANY | {
    "maps of doubles": _npz("maps", lambda a: a.astype(np.float64)),
    "maps of sevens": _npz("maps", lambda a: a + 7),
    "one map": _npz("maps", lambda a: a[:1]),
    "a number for maps": _npz("maps", lambda a: np.array(5)),
    "open maps": _npz("maps", lambda a: a * 0 + 1),
    "texts": _npz("maps", lambda a: a.astype("<U2")),
    "objects": _npz("maps", lambda a: np.array([{}])),
    "no lengths": _npz("path_len", lambda a: a[:, :0]),
    "negative lengths": _npz("path_len", lambda a: -a.astype(np.int64)),
    "endless lengths": _npz("path_len", lambda a: a.astype(np.uint64) + np.uint64(2**63)),
    "starts outside": _npz("path_start", lambda a: a + 100),
    "ends elsewhere": _npz("path_end", lambda a: a * 0 + 1),
    "moves lost": _npz("moves2bit", lambda a: a[:-1]),
    "other moves": _npz("moves2bit", lambda a: ~a),
    "another count": _npz("n_moves", lambda a: a + 1),
}


@pytest.mark.parametrize("case", MAPS)
def test_a_damaged_file_of_maps_is_named(maps: Path, tmp_path: Path, case: str) -> None:
    shutil.copytree(maps, tmp_path / "own")
    file = tmp_path / "own" / "frl_grid_8.npz"
    MAPS[case](file)
    keys = {"data.dir": str(file.parent), "data.cache-dir": str(tmp_path / "cache")}
    line = read_all("fedrl", keys, tmp_path)
    assert str(file) in line and line == one_line(line, 2000), line


VECTORS = ANY | {
    "a number less": _bytes(lambda data: data.replace(b" 0.5", b"", 1)),
    "a word for a number": _bytes(lambda data: data.replace(b"0.5", b"half", 1)),
    "a NaN": _bytes(lambda data: data.replace(b"0.5", b"nan", 1)),
    "a lying count": _bytes(lambda data: b"9 2\n" + data),
    "words of another language": lambda path: path.write_text("rechts 0.1 0.2\n"),
}


@pytest.mark.parametrize("case", VECTORS)
def test_a_damaged_file_of_vectors_is_named(tmp_path: Path, case: str) -> None:
    from fedsuite.fedrl.text2action.vectors import read_vectors

    file = tmp_path / "glove.txt"
    file.write_text("".join(f"{word} 0.5 0.25\n" for word in ("open", "close", "file")))
    VECTORS[case](file)
    try:
        found = read_vectors(file, ["open", "close", "file"])
    except InputError as error:
        assert str(file) in str(error) and str(error) == one_line(str(error), 2000)
        return
    except OSError as error:
        assert str(file) in str(refused(error))
        return
    # A file of fewer words, or of other ones beside those asked for, is a good file.
    assert case.startswith("cut") or case == "no utf-8"
    assert set(found.rows) < {"open", "close", "file"} or case == "cut at 0.98"


DRIVES = {k: v for k, v in ANY.items() if k not in ("gone", "a link to nowhere")}
LOG, PICTURE = "ada/driving_log.csv", "bob/IMG/7.png"


@pytest.mark.parametrize(("name", "case"), [(n, c) for n in (LOG, PICTURE) for c in DRIVES])
def test_a_damaged_file_of_drives_is_named(tmp_path: Path, name: str, case: str) -> None:
    write_drives(tmp_path / "drives", frames=60)
    DRIVES[case](tmp_path / "drives" / name)
    keys = {"data.dir": str(tmp_path / "drives"), "data.cache-dir": str(tmp_path / "cache")}
    line = read_all("cdl", {**keys, "data.image-size": 40}, tmp_path)
    if case.startswith("cut") and not line:
        # A log may end early, at the end of a line; of a picture's last bytes no pixel is made.
        assert name == LOG or case == "cut at 0.98"
        return
    assert name in line or (name.split("/", maxsplit=1)[0] in line and case == "a folder"), line
    assert "\n" not in line


def _member(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda roster: roster["members"][0].update(changes)


def _detail(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda roster: roster["members"][0]["details"].__setitem__(key, value)


ROSTERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no members": lambda r: r.update(members=[]),
    "members of text": lambda r: r.update(members="oak"),
    "a member that is a text": lambda r: r["members"].__setitem__(0, "oak"),
    "a key too many": _member(address="here"),
    "no name": lambda r: r["members"][0].pop("name"),
    "a name that leads elsewhere": _member(name="../oak"),
    "a number for a name": _member(name=5),
    "another's name": lambda r: r["members"][0].update(name=r["members"][1]["name"]),
    "a name with an escape": _member(name="oak\x1b[31m"),
    "no examples": _member(examples=None),
    "negative examples": _member(examples=-1),
    "half an example": _member(examples=1.5),
    "a role of numbers": _member(role=5),
    "details of text": _member(details="oak"),
    "no details": _member(details={}),
    "houses that lead elsewhere": _detail("houses", ["../../etc"]),
    "a text for houses": _detail("houses", "oak"),
    "a house of nobody": _detail("houses", ["palace"]),
    "numbers of text": _detail("numbers", ["first"]),
    "no facts": lambda r: r.pop("facts"),
    "facts of text": lambda r: r.update(facts="all"),
    "no width": lambda r: r.update(facts={}),
    "a width of text": lambda r: r.update(facts={"feature-size": "wide"}),
    "a negative width": lambda r: r.update(facts={"feature-size": -8}),
    "no words": lambda r: r.pop("words"),
    "words of numbers": lambda r: r.update(words=[1, 2]),
    "words of a text": lambda r: r.update(words="oak"),
    "an empty vocabulary": lambda r: r.update(words=[]),
    "examples of 400 digits": _member(examples=10**400),
}


@pytest.mark.parametrize("case", [*ROSTERS, *(c for c in ANY if c != "cut at 0.98")])
def test_a_roster_that_is_none_is_refused(houses: Path, tmp_path: Path, case: str) -> None:
    from fedsuite.roster.members import read_roster, write_roster

    keys = {"data.dir": str(houses), "data.features": str(houses / "views"), **TINY}
    own = load_system("fedvln")
    settings = read_config(own.config_class, keys | {"data.cache-dir": str(tmp_path / "cache")})
    file = tmp_path / "roster.json"
    write_roster(file, own.prepare(settings, silent))
    if case in ANY:
        ANY[case](file)
    else:
        content = json.loads(file.read_text())
        ROSTERS[case](content)
        file.write_text(json.dumps(content))
    with pytest.raises(InputError) as refusal:
        roster = read_roster(file)
        own.make_strategy(settings, roster)
        for partition, name in enumerate(roster.names):
            own.make_client(settings, Node(roster, partition, tmp_path / name)).get_properties({})
    line = str(refusal.value)
    assert "roster" in line or "palace" in line
    assert line == one_line(line, 2000)


def _of(module: str, name: str, *others: Any) -> Callable[[Path], object]:
    """A reader of one file, with what it wants to know beside the path."""

    def read(path: Path) -> object:
        found = getattr(importlib.import_module(f"fedsuite.{module}"), name)(path, *others)
        return list(found) if isinstance(found, Iterator) else found

    return read


def _frame(path: Path) -> object:
    from fedsuite.driving.data.readers.pictures import FrameFormat, read_picture

    return read_picture(path, FrameFormat())


def _texts(path: Path) -> object:
    from fedsuite.fedrl.text2action.reader import read_corpus

    keys = {"world.kind": "text2action", "data.corpus": "win2k", "data.dir": str(path.parent)}
    return read_corpus(read_config(load_system("fedrl").config_class, keys))


READERS: dict[str, Callable[[Path], object]] = {
    "features.tsv": _of("vln.data.view_files", "read_tsv"),
    "features.hdf5": _of("vln.data.view_files", "read_hdf5"),
    "oak.npy": _of("vln.data.sources", "_width", 13),
    "R2R_train.json": _of("vln.data.annotations", "read_annotations"),
    "rxr_train_guide.jsonl.gz": _of("vln.data.rxr", "read_guides", "en"),
    "rxr_train_guide.jsonl": _of("vln.data.rxr", "read_guides", "en"),
    "train_vocab.txt": _of("vln.data.instructions", "read_vocabulary"),
    "vocabulary.json": _of("vln.data.instructions", "read_vocabulary"),
    "model.safetensors": _of("vln.start", "read_model", "start-from"),
    "roster.json": _of("roster.members", "read_roster"),
    "network.json": _of("driving.topology.custom_topology", "read_network"),
    "network.csv": _of("driving.topology.custom_topology", "read_network"),
    "driving_log.csv": _of("driving.data.readers.tables", "read_rows"),
    "7.png": _frame,
    "manifest.json": _of("driving.data.readers.donkeycar", "_deleted"),
    "record_7.json": _of("driving.data.readers.donkeycar", "_text"),
    "drives.npz": _of("driving.data.readers.archive", "stream_imgs"),
    "drives.toml": _of("driving.data.fleet", "read_fleet", []),
    "silos.json": lambda path: _of("driving.data.frames", "_index")(path.parent),
    "frl_grid_8.npz": _of("fedrl.gridworld.reader", "read_maps", 8, "restore it"),
    "t2a_win2k.json.gz": _texts,
    "glove.txt": _of("fedrl.text2action.vectors", "read_vectors", ["open"]),
    "glove.bin": _of("fedrl.text2action.vectors", "read_vectors", ["open"]),
}  # fmt: skip
NO_FILES = {
    "closed": "Permission denied; see to the path and its rights",
    "a pipe": "a pipe or a device, not a|no such file",
    "a folder": "a folder, not a|no such file",
    "a link to nowhere": "",
    "a link to itself": "",
}


@pytest.mark.parametrize("case", NO_FILES)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_or_closed_is_said_as_that(tmp_path: Path, name: str, case: str) -> None:
    """Not as a damaged file, which would be fetched again in vain; and nobody waits for a pipe."""
    file = tmp_path / name
    file.write_text("x")
    ANY[case](file)
    with pytest.raises((InputError, FileNotFoundError)) as refusal:
        READERS[name](file)
    line = str(refusal.value)
    assert str(file) in line and line == one_line(line, 2000), line
    assert any(words in line for words in NO_FILES[case].split("|")), line
