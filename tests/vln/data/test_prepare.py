"""From a user's files to a prepared folder, and what is said when the files are wrong."""

import base64
import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln.data.annotations import read_annotations
from fedsuite.vln.data.dataset import load_house, load_vocabulary
from fedsuite.vln.data.prepare import digest_of, prepare_houses, prepare_views
from tests.harness import decoded

SCANS = ("oak", "elm", "ash")


def convert(data: Path, file: Path) -> dict[str, np.ndarray]:
    out = data.parent / f"views-{file.suffix[1:]}"
    assert prepare_views(file, data / "connectivity", out) == 8
    return {f.stem: np.load(f) for f in out.glob("*.npy")}


def rows(file: Path) -> list[list[str]]:
    return [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]


def write_hdf5(data: Path, name: str = "features.hdf5") -> Path:
    with h5py.File(data / name, "w") as out:
        for scan, viewpoint, *_, code in rows(data / "features.tsv"):
            values = np.frombuffer(base64.b64decode(code), np.float32).reshape(36, -1)
            out[f"{scan}_{viewpoint}"] = values
    return data / name


def refusal(work, *arguments) -> str:
    """The one-line message of the InputError."""
    with pytest.raises(InputError) as error:
        work(*arguments)
    message = str(error.value)
    assert "\n" not in message and len(message) < 600
    return message


def views_refusal(data: Path, file: Path) -> str:
    return refusal(prepare_views, file, data / "connectivity", data.parent / "views")


# --- view features ----------------------------------------------------------------------------


def test_tsv_and_hdf5_give_the_same_arrays(data_dir):
    tsv = convert(data_dir, data_dir / "features.tsv")
    hdf5 = convert(data_dir, write_hdf5(data_dir))
    assert set(tsv) == set(hdf5) == set(SCANS)
    for scan in SCANS:
        assert tsv[scan].dtype == np.float32 and np.array_equal(tsv[scan], hdf5[scan])


def test_rows_follow_the_connectivity_file_and_excluded_ones_are_zero(prepared, data_dir):
    views = convert(data_dir, data_dir / "features.tsv")["oak"]
    assert views.shape == (13, 36, 8)
    assert not views[1].any() and views[12].any()
    code = {r[1]: r[5] for r in rows(data_dir / "features.tsv")}
    want = np.frombuffer(base64.b64decode(code["oak-7"]), np.float32).reshape(36, 8)
    assert np.array_equal(views[7], want)


def test_order_of_the_lines_repeats_and_unknown_scans_do_not_matter(data_dir):
    want = convert(data_dir, data_dir / "features.tsv")
    lines = (data_dir / "features.tsv").read_text().splitlines(keepends=True)
    mixed = [lines[i] for i in np.random.default_rng(0).permutation(len(lines))]
    stranger = mixed[0].replace(mixed[0].split("\t")[0], "fir", 1)
    (data_dir / "mixed.tsv").write_text("".join([stranger, *mixed, mixed[3], lines[0]]))
    assert prepare_views(data_dir / "mixed.tsv", data_dir / "connectivity", data_dir / "mixed") == 8
    assert {f.stem for f in (data_dir / "mixed").glob("*.npy")} == set(SCANS)
    for scan in SCANS:
        assert np.array_equal(np.load(data_dir / "mixed" / f"{scan}.npy"), want[scan])


def test_truncated_tsv(data_dir):
    file = data_dir / "features.tsv"
    text = file.read_text()
    file.write_text(text[:-400])
    message = views_refusal(data_dir, file)
    assert (
        str(file) in message and "truncated" in message and f"line {text.count(chr(10))}" in message
    )
    file.write_text(text[: text.rindex("\t")])
    assert "5 columns instead of 6" in views_refusal(data_dir, file)


def test_tsv_that_ends_between_two_lines(data_dir):
    file = data_dir / "features.tsv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-2]))
    message = views_refusal(data_dir, file)
    assert str(file) in message and "2 panoramas of ash are missing (first: ash-" in message


def test_missing_panorama(data_dir):
    file = data_dir / "features.tsv"
    kept = [line for line in file.read_text().splitlines(keepends=True) if "\toak-5\t" not in line]
    file.write_text("".join(kept))
    assert "1 panoramas of oak are missing (first: oak-5)" in views_refusal(data_dir, file)


@pytest.mark.parametrize("name", ["short.hdf5", "short.h5"])
def test_truncated_hdf5(data_dir, name):
    file = write_hdf5(data_dir, name)
    file.write_bytes(file.read_bytes()[:-3000])
    message = views_refusal(data_dir, file)
    assert str(file) in message and "truncated or damaged" in message


def test_hdf5_with_a_missing_panorama(data_dir):
    file = write_hdf5(data_dir)
    with h5py.File(file, "a") as entries:
        del entries["elm_elm-3"]
    assert "elm-3" in views_refusal(data_dir, file)


def test_widths_that_differ(data_dir):
    """In one entry of an HDF5, and in one line of a TSV."""
    file = write_hdf5(data_dir)
    with h5py.File(file, "a") as entries:
        del entries["elm_elm-3"]
        entries["elm_elm-3"] = np.zeros((36, 9), np.float32)
    assert "elm_elm-3 has shape (36, 9), expected (36, 8)" in views_refusal(data_dir, file)
    tsv = data_dir / "features.tsv"
    lines = rows(tsv)
    lines[4][5] += lines[4][5]
    tsv.write_text("\n".join("\t".join(line) for line in lines) + "\n")
    message = views_refusal(data_dir, tsv)
    assert str(tsv) in message and "(36, 16), expected (36, 8)" in message


@pytest.mark.parametrize("shape", [(35, 8), (36,), (36, 8, 1)])
def test_hdf5_entries_that_are_no_36_views(data_dir, shape):
    file = write_hdf5(data_dir)
    with h5py.File(file, "a") as entries:
        first = next(iter(entries))
        del entries[first]
        entries[first] = np.zeros(shape, np.float32)
    assert f"{first} has shape {shape}" in views_refusal(data_dir, file)


def test_hdf5_of_nested_groups(data_dir):
    file = data_dir / "nested.hdf5"
    with h5py.File(file, "w") as out:
        out["oak/oak-0"] = np.zeros((36, 8), np.float32)
    assert str(file) in views_refusal(data_dir, file)


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n\x1a\n\xff\xfe\x00" * 50, b"a b c\n", b"a\tb\tc\td\te\tf\n"]
)
def test_files_that_are_no_features(data_dir, content):
    for name in ("bad.tsv", "bad.hdf5"):
        (data_dir / name).write_bytes(content)
        assert str(data_dir / name) in views_refusal(data_dir, data_dir / name)


def test_values_that_are_no_numbers(data_dir):
    file = write_hdf5(data_dir)
    with h5py.File(file, "a") as entries:
        entries["elm_elm-3"][2, 1] = np.nan
    assert "elm_elm-3" in views_refusal(data_dir, file)


def test_no_such_feature_file(data_dir):
    assert "none.tsv: no such feature file" in views_refusal(data_dir, data_dir / "none.tsv")


def test_features_of_other_houses(data_dir):
    text = (data_dir / "features.tsv").read_text()
    for scan in SCANS:
        text = text.replace(f"{scan}\t", f"other-{scan}\t")
    (data_dir / "features.tsv").write_text(text)
    assert "do not belong together" in views_refusal(data_dir, data_dir / "features.tsv")


def as_float64(data: Path, change=lambda values: values) -> Path:
    """The same features as float64."""
    lines = rows(data / "features.tsv")
    for line in lines:
        values = np.frombuffer(base64.b64decode(line[5]), np.float32).astype(np.float64)
        line[5] = base64.b64encode(change(values).tobytes()).decode()
    (data / "double.tsv").write_text("\n".join("\t".join(line) for line in lines) + "\n")
    return data / "double.tsv"


@pytest.mark.parametrize(
    "change",
    [lambda v: v, lambda v: v * 1.1, lambda v: np.round(v * 4) / 4],
    ids=["widened", "computed", "short"],
)
def test_tsv_of_float64_is_never_taken_for_wider_float32(data_dir, change):
    file = as_float64(data_dir, change)
    message = views_refusal(data_dir, file)
    assert message.startswith(f"{file}: line 1 (oak oak-0) looks like 8 float64 values a view")
    assert "data.feature-size" in message
    out = data_dir / "out"
    assert prepare_views(file, data_dir / "connectivity", out, feature_size=8) == 8
    want = convert(data_dir, data_dir / "features.tsv")
    for scan in SCANS:
        assert np.array_equal(
            np.load(out / f"{scan}.npy"), change(want[scan].astype(float)).astype("f4")
        )


def test_the_width_that_is_meant_decides(data_dir):
    lines = rows(data_dir / "features.tsv")
    for line in lines:  # one feature in two is zero
        values = np.frombuffer(base64.b64decode(line[5]), np.float32).copy()
        values[::2] = 0
        line[5] = base64.b64encode(values.tobytes()).decode()
    file = data_dir / "half.tsv"
    file.write_text("\n".join("\t".join(line) for line in lines) + "\n")
    assert "looks like 4 float64" in views_refusal(data_dir, file)
    out = data_dir / "out"
    assert prepare_views(file, data_dir / "connectivity", out, feature_size=8) == 8
    assert not np.load(out / "oak.npy")[..., ::2].any() and np.load(out / "oak.npy").any()


@pytest.mark.parametrize("value", [1e39, -1e300, np.nan, np.inf])
def test_float64_that_is_no_finite_float32(data_dir, value):
    def change(values):
        values[5] = value
        return values

    message = refusal(
        lambda: prepare_views(
            as_float64(data_dir, change), data_dir / "connectivity", data_dir / "o", feature_size=8
        )
    )
    assert "oak_oak-0 holds NaN or infinity" in message


def test_hdf5_entries_that_are_no_numbers_or_lead_nowhere(data_dir):
    for number, bad in enumerate(
        [
            5.0,
            "text",
            h5py.SoftLink("/nowhere"),
            h5py.ExternalLink("no.hdf5", "/a"),
            h5py.Empty("f4"),
        ]
    ):
        file = write_hdf5(data_dir, f"bad{number}.hdf5")
        with h5py.File(file, "a") as entries:
            del entries["elm_elm-3"]
            entries["elm_elm-3"] = bad
        message = views_refusal(data_dir, file)
        assert message.startswith(f"{file}: elm_elm-3 ")


@pytest.mark.parametrize("scan", ["../evil", "/tmp/evil", "..", "a\\b", "a/b"])
def test_scans_that_lead_elsewhere_are_refused(data_dir, scan):
    tsv = data_dir / "features.tsv"
    tsv.write_text(tsv.read_text().replace("oak\t", f"{scan}\t", 1))
    message = views_refusal(data_dir, tsv)
    assert message.startswith(f"{tsv}: a scan must be ") and repr(scan) in message
    file = edit(data_dir, "train", set_field(0, scan=scan))
    message = houses_refusal(data_dir)
    assert message.startswith(f"{file}: a scan must be ") and repr(scan) in message
    assert not list(data_dir.parent.rglob("*evil*"))


# --- annotations ------------------------------------------------------------------------------


def test_prepared_houses(prepared):
    manifest = json.loads((prepared.houses_dir / "manifest.json").read_text())
    assert manifest["splits"] == {
        "train": ["oak", "elm"],
        "val_seen": ["oak"],
        "val_unseen": ["ash"],
    }
    assert manifest["samples"]["oak"] == {"train": 18, "val_seen": 6, "val_unseen": 0}
    assert manifest["panoramas"] == {"oak": 13, "elm": 7, "ash": 10}
    assert manifest["vocabulary"] == len(load_vocabulary(prepared.houses_dir))
    own = json.loads((prepared.houses_dir / "elm" / "episodes.json").read_text())
    assert set(own) == {"train"} and {i["scan"] for i in own["train"]} == {"elm"}


def test_samples_of_a_house(prepared, oak):
    items = json.loads((prepared.data_dir / "annotations" / "R2R_train.json").read_text())
    items = [i for i in items if i["scan"] == "oak"]
    samples = oak.samples["train"]
    assert [s.instr_id for s in samples] == [f"{i['path_id']}_{k}" for i in items for k in range(3)]
    for s, (item, k) in zip(samples, [(i, k) for i in items for k in range(3)], strict=True):
        assert s.text == item["instructions"][k]
        assert [oak.graph.viewpoint_ids[p] for p in s.path] == item["path"]
        assert decoded(load_vocabulary(prepared.houses_dir).words, s.tokens).split()[-1] == "."
    assert (
        oak.views.shape == (13, 36, 8) and not oak.views.flags.writeable
    ) or oak.views.base is not None


def test_writing_to_opened_views_does_not_reach_the_file(prepared, oak):
    before = np.load(prepared.views_dir / "oak.npy")
    oak.views[:] = 0
    assert np.array_equal(np.load(prepared.views_dir / "oak.npy"), before)


def test_long_instructions_are_cut(prepared):
    house = load_house(
        prepared.houses_dir, prepared.connectivity_dir, prepared.views_dir, "oak", max_length=4
    )
    assert {len(s.tokens) for s in house.samples["train"]} == {4}


def edit(data: Path, split: str, change) -> Path:
    """Apply `change` to the items of a split; returns the file."""
    file = data / "annotations" / f"R2R_{split}.json"
    items = json.loads(file.read_text())
    items = change(items) or items
    file.write_text(json.dumps(items))
    return file


def houses_refusal(data: Path) -> str:
    return refusal(prepare_houses, data, data.parent / "houses", 2)


def set_field(number: int, **values):
    return lambda items: items[number].update(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"path": ["oak-0", "oak-99"]}, "viewpoint oak-99 is not in the graph of oak"),
        ({"path": ["oak-0", "oak-1"]}, "viewpoint oak-1 is not in the graph of oak"),
        ({"path": []}, "viewpoint (none)"),
        ({"path": ["oak-0", "oak-11"]}, "no edge from oak-0 to oak-11 in oak"),
        ({"path": ["oak-0", "oak-12"]}, "no edge from oak-0 to oak-12"),
        ({"instructions": ["Go left.", " "]}, "an instruction is missing or empty"),
        ({"instructions": []}, "an instruction is missing or empty"),
    ],
)
def test_items_that_do_not_fit_the_graph(data_dir, values, message):
    file = edit(data_dir, "train", set_field(2, **values))
    got = houses_refusal(data_dir)
    assert got.startswith(f"{file}: path_id 2: ") and message in got


@pytest.mark.parametrize(
    "values",
    [
        {"path": "oak-0"},
        {"path": [["oak-0"]]},
        {"instructions": "Go left."},
        {"instructions": [None]},
        {"heading": None},
        {"heading": float("nan")},
        {"heading": 10**400},
        {"path_id": float("inf")},
        {"path_id": ""},
        {"path_id": "a\nb"},
        {"path_id": 5.5},
        {"path_id": True},
        {"scan": 5},
    ],
    ids=str,
)
def test_items_of_the_wrong_kind(data_dir, values):
    file = edit(data_dir, "val_unseen", set_field(0, **values))
    message = houses_refusal(data_dir)
    assert message.startswith(f"{file}: not annotations of R2R")


@pytest.mark.parametrize("text", ["", "[{]", "{}7", '{"scan": 1}', "7", "[7]", '[{"scan": "oak"}]'])
def test_files_that_are_no_annotations(data_dir, text):
    file = data_dir / "annotations" / "R2R_val_seen.json"
    file.write_text(text)
    assert houses_refusal(data_dir).startswith(f"{file}: not annotations of R2R")


def test_a_path_id_that_repeats(data_dir):
    file = edit(data_dir, "train", set_field(1, path_id=0))
    message = houses_refusal(data_dir)
    assert message.startswith(f"{file}: item 2: path_id 0 stands in the file twice")


def test_headings_as_texts_are_read_as_numbers(data_dir):
    file = edit(data_dir, "train", set_field(1, heading="1.5"))
    assert read_annotations(file)[1]["heading"] == 1.5


def test_missing_files(data_dir):
    (data_dir / "annotations" / "R2R_val_seen.json").unlink()
    message = refusal(read_annotations, data_dir / "annotations" / "R2R_val_seen.json")
    assert "R2R_val_seen.json: no such file" in message
    assert "R2R_val_seen.json: no such file" in houses_refusal(data_dir)


def test_a_house_with_places_that_nobody_comes_back_from(data_dir):
    file = data_dir / "connectivity" / "oak_connectivity.json"
    rows = json.loads(file.read_text())
    last = next(r for r in reversed(rows) if any(r["unobstructed"]))
    last["unobstructed"] = [False] * len(rows)
    file.write_text(json.dumps(rows))
    message = houses_refusal(data_dir)
    assert f"{file}: {last['image_id']} is reached from " in message and "no way back" in message


def test_missing_scan(data_dir):
    (data_dir / "connectivity" / "ash_connectivity.json").unlink()
    message = houses_refusal(data_dir)
    assert "1 scans of the annotations have no connectivity file (first: ash)" in message


@pytest.mark.parametrize("folder", ["connectivity", "annotations"])
def test_missing_folder(data_dir, folder):
    (data_dir / folder).rename(data_dir / "elsewhere")
    message = houses_refusal(data_dir)
    assert str(data_dir / folder) in message and "needs connectivity/ and annotations/" in message


def test_no_training_paths(data_dir):
    edit(data_dir, "train", lambda items: items.clear())
    assert "R2R_train.json: no paths" in houses_refusal(data_dir)


def test_seen_validation_in_a_house_nobody_trains_in(data_dir):
    unseen = json.loads((data_dir / "annotations" / "R2R_val_unseen.json").read_text())
    edit(data_dir, "val_seen", lambda items: items + unseen[:1])
    assert "R2R_val_seen.json: ash is no training house" in houses_refusal(data_dir)


def test_a_split_without_paths_is_allowed(data_dir):
    edit(data_dir, "val_seen", lambda items: items.clear())
    prepare_houses(data_dir, data_dir.parent / "houses", 2)
    manifest = json.loads((data_dir.parent / "houses" / "manifest.json").read_text())
    assert manifest["splits"]["val_seen"] == []


def test_digests_name_contents_and_settings(tmp_path):
    file = tmp_path / "a"
    file.write_text("1")
    first = digest_of(file, 5)
    assert first == digest_of(file, 5) and len(first) == 16
    assert first != digest_of(file, 6)
    file.write_text("12")
    assert first != digest_of(file, 5)
