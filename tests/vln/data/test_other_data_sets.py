"""Files that lie beside R2R's on people's disks: views with logits behind them, and annotations of other data sets.

Small ones are written here; tests that are marked `needs_shared` read files with the fields of the released ones.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.storage.progress import in_lines, silent
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import load_vocabulary
from fedsuite.vln.data.prepare import prepare_houses, prepare_views
from fedsuite.vln.data.sources import open_sources, prepare_sources
from tests.conftest import features_of, tsv_line
from tests.harness import changed

LOGITS = np.full((36, 1000), 50.0)


def refusal(work: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(InputError) as error:
        work(*arguments)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- view features ------------------------------------------------------------------------------


def with_logits(data: Path, kind: str, width: int, dtype: type = np.float32) -> Path:
    """The views of the handmade houses, repeated to `width`, with logits behind them."""
    file = data / f"wide.{kind}"
    entries = [line.split("\t")[:2] for line in (data / "features.tsv").read_text().splitlines()]
    views = {
        (s, v): np.hstack([np.tile(features_of(s, v), width // 8), LOGITS]).astype(dtype)
        for s, v in entries
    }
    if kind == "tsv":
        file.write_text("".join(tsv_line(*name, values) for name, values in views.items()))
        return file
    with h5py.File(file, "w") as out:
        for (scan, viewpoint), values in views.items():
            out[f"{scan}_{viewpoint}"] = values
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "width", "dtype"),
    [("tsv", 768, np.float32), ("tsv", 768, np.float64), ("hdf5", 768, np.float64), ("hdf5", 2048, np.float32)],
)  # fmt: skip
def test_logits_are_cut_off_where_the_size_is_said(data_dir, kind, width, dtype) -> None:
    file, out, said = with_logits(data_dir, kind, width, dtype), data_dir.parent / "views", []
    assert (
        prepare_views(file, data_dir / "connectivity", out, in_lines(said.append), width) == width
    )
    assert np.array_equal(
        np.load(out / "oak.npy")[0], np.tile(features_of("oak", "oak-0"), width // 8)
    )
    told = f"of {width + 1000} values a view the first {width} are kept, 1000 logits are left out"
    assert f"{file}: {told}" in said
    record = {"feature-size": width, "file-width": width + 1000}
    assert json.loads((out / "views.json").read_text()) == record


def test_widths_that_nobody_asked_for(data_dir) -> None:
    file, graphs, out = (
        with_logits(data_dir, "hdf5", 512),
        data_dir / "connectivity",
        data_dir / "o",
    )
    message = refusal(prepare_views, file, graphs, out)
    assert message.startswith(
        f"{file}: views of width 1512, which looks like 512 features and 1000 logits; "
    )
    assert "(--feature-size) to 512 to keep the features, or to 1512 to keep all" in message
    message = refusal(prepare_views, file, graphs, out, silent, 500)
    assert "width 1512, but data.feature-size (--feature-size) is 500" in message
    assert message.endswith("set it to 512 or 1512")
    assert prepare_views(file, graphs, out, silent, 1512) == 1512
    assert (np.load(out / "oak.npy")[0, :, 512:] == 50).all()


def settings(data: Path, features: Path, size: int = 0) -> FedVLNConfig:
    return changed(
        FedVLNConfig(), data_dir=str(data), features=str(features), feature_size=size, min_word_count=2,
        cache_dir=str(data.parent / "cache"),
    )  # fmt: skip


def test_a_run_cuts_what_it_was_told_and_keeps_each_size_apart(data_dir) -> None:
    file = with_logits(data_dir, "hdf5", 512)
    assert "512 features and 1000 logits" in refusal(prepare_sources, settings(data_dir, file))
    sizes = {n: prepare_sources(settings(data_dir, file, n)) for n in (512, 1512)}
    assert {n: s.feature_size for n, s in sizes.items()} == {512: 512, 1512: 1512}
    assert sizes[512].views_dir != sizes[1512].views_dir


def test_a_folder_with_logits_is_used_if_they_were_asked_for(data_dir) -> None:
    """When it was prepared, or by the run; an older folder does not say."""
    folder = data_dir / "views"
    prepare_views(
        with_logits(data_dir, "hdf5", 512), data_dir / "connectivity", folder, silent, 1512
    )
    prepare_sources(settings(data_dir, folder))
    (folder / "views.json").unlink()
    open_sources.cache_clear()
    message = refusal(prepare_sources, settings(data_dir, folder))
    assert message.startswith(
        f"data.features: width 1512 in {folder}, which looks like 512 features"
    )
    assert '--feature-size 512", or set data.feature-size=1512 to train on all' in message
    assert prepare_sources(settings(data_dir, folder, 1512)).feature_size == 1512
    message = refusal(prepare_sources, settings(data_dir, folder, 512))
    assert (
        'but data.feature-size is 512; convert the features again with "fedsuite data prep'
        in message
    )


# --- annotations --------------------------------------------------------------------------------


def edit(data: Path, split: str, **values: object) -> Path:
    """Give the first item of a split other fields."""
    file = data / "annotations" / f"R2R_{split}.json"
    items = json.loads(file.read_text())
    items[0] |= values
    file.write_text(json.dumps(items))
    return file


def prepared(data: Path, said: list[str] | None = None) -> Path:
    out = data.parent / "houses"
    prepare_houses(data, out, 2, in_lines((said if said is not None else []).append))
    return out


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"first_path_id": 1, "second_path_id": 2},
            "R4R (it has first_path_id), not of R2R; set data.dataset=r4r and name the file R4R_<split>.json",
        ),
        (
            {"objId": 12, "id": "0_12"},
            "REVERIE (it has objId), not of R2R; set data.dataset=reverie",
        ),
        ({"id": "0", "instructions_l": ["Go."]}, "REVERIE (it has instructions_l)"),
        (
            {"inst_idx": 5, "dialog_history": []},
            "CVDN (NDH) (it has dialog_history), not of R2R; set data.dataset=ndh",
        ),
        ({"bboxes": []}, "SOON (it has bboxes)"),
    ],
)
@pytest.mark.parametrize("split", ["train", "val_unseen"])
def test_items_of_another_data_set_are_named_as_such(data_dir, fields, told, split) -> None:
    file = edit(data_dir, split, **fields)
    message = refusal(prepared, data_dir)
    assert message.startswith(f"{file}: item 1 is an item of {told}")
    assert message.endswith("give R2R's own file") and "stands in it twice" not in message


def test_a_path_that_comes_back_is_none_of_r2r(data_dir) -> None:
    items = json.loads((data_dir / "annotations" / "R2R_train.json").read_text())
    path = items[0]["path"]
    file = edit(data_dir, "train", path=[*path, *path[-2::-1]])
    message = refusal(prepared, data_dir)
    assert message.startswith(
        f"{file}: path_id {items[0]['path_id']}: its path comes back to {path[-2]}"
    )
    assert message.endswith("so give R2R's own file or remove the path")


def test_training_paths_that_are_no_shortest_ways_are_told(data_dir, prepared_graph) -> None:
    said: list[str] = []
    shutil.rmtree(prepared(data_dir, said))
    assert not [line for line in said if "shortest" in line]
    file = edit(data_dir, "train", scan="oak", path=prepared_graph)
    prepared(data_dir, said)
    (line,) = (line for line in said if "shortest" in line)
    assert line.startswith(
        f"{file}: 1 of 7 paths are not the shortest way to their end (first: path_id 0)"
    )


@pytest.fixture
def prepared_graph(oak) -> list[str]:
    """A path of oak that never comes back and is longer than need be: around a corner of three neighbours."""
    edge = oak.graph.edge
    for a, b in zip(*np.nonzero(edge), strict=True):
        for c in np.flatnonzero(edge[a] & edge[b]):
            return [oak.graph.viewpoint_ids[i] for i in (a, c, b)]
    raise AssertionError("no corner")


def test_texts_name_paths(data_dir) -> None:
    edit(data_dir, "train", path_id="hm3d_7")
    edit(data_dir, "val_seen", path_id="12_3")  # int() makes 123 of it
    edit(data_dir, "val_unseen", path_id="812")
    out = prepared(data_dir)
    found = [
        item["path_id"]
        for scan in ("oak", "ash")
        for items in json.loads((out / scan / "episodes.json").read_text()).values()
        for item in items
    ]
    assert {"hm3d_7", "12_3", 812} <= set(found)


def test_instructions_of_paths_named_by_texts(data_dir) -> None:
    from fedsuite.vln.data.dataset import load_samples
    from fedsuite.vln.data.graph import load_graph

    edit(data_dir, "train", path_id="hm3d_7")
    out = prepared(data_dir)
    graph = load_graph(data_dir / "connectivity", "oak")
    samples = load_samples(out, graph, 80, load_vocabulary(out))["train"]
    assert [s.instr_id for s in samples[:3]] == ["hm3d_7_0", "hm3d_7_1", "hm3d_7_2"]


def test_token_ids_are_not_kept(data_dir) -> None:
    out = prepared(data_dir)
    plain = {f.relative_to(out): f.read_bytes() for f in out.rglob("*.json")}
    shutil.rmtree(out)
    for split in ("train", "val_seen", "val_unseen"):
        file = data_dir / "annotations" / f"R2R_{split}.json"
        items = json.loads(file.read_text())
        file.write_text(
            json.dumps([i | {"instr_encodings": [[101, 2175, 102]] * 3} for i in items])
        )
    prepared(data_dir)
    assert {f.relative_to(out): f.read_bytes() for f in out.rglob("*.json")} == plain


def test_token_ids_are_no_texts(data_dir) -> None:
    file = data_dir / "annotations" / "R2R_train.json"
    items = json.loads(file.read_text())
    items[3]["instr_encoding"] = [101, 2175, 102]
    del items[3]["instructions"]
    file.write_text(json.dumps(items))
    message = refusal(prepared, data_dir)
    assert message.startswith(
        f"{file}: item 4 holds token ids (instr_encodings) without instructions; set data.bert-vocabulary"
    )
    file.write_text('{"episodes": [], "instruction_vocab": {}}')
    assert "episodes of VLN-CE, which need Habitat; give the R2R file" in refusal(
        prepared, data_dir
    )


# --- files with the fields of released ones -----------------------------------------------------


@pytest.fixture
def duet(shared: Path, tmp_path: Path) -> Path:
    """connectivity/ and annotations/ as R2R has them, and released/ beside them."""
    released = shared / "data" / "formats" / "duet"
    if not released.is_dir():
        pytest.skip(f"{released} is not there")
    (tmp_path / "data" / "annotations").mkdir(parents=True)
    shutil.copytree(released / "connectivity", tmp_path / "data" / "connectivity")
    (tmp_path / "data" / "released").symlink_to(released)
    for split in ("train", "val_seen", "val_unseen"):
        source = released / "annotations" / f"R2R_{split}_enc.json"
        shutil.copyfile(source, tmp_path / "data" / "annotations" / f"R2R_{split}.json")
    return tmp_path / "data"


@pytest.mark.needs_shared
def test_released_views_are_cut(duet: Path) -> None:
    file = duet / "released" / "features" / "pth_vit_base_patch16_224_imagenet.hdf5"
    graphs = duet / "connectivity"
    assert "768 features and 1000 logits" in refusal(prepare_views, file, graphs, duet / "views")
    assert "is 700;" in refusal(prepare_views, file, graphs, duet / "views", silent, 700)
    assert prepare_views(file, graphs, duet / "views", silent, 768) == 768
    expected = json.loads((duet / "released" / ".." / "expected.json").resolve().read_text())
    rows = expected["duet"]["features"][file.name]["rows"]
    for scan in ("Made1House", "00900-Made2House"):
        graph = json.loads((graphs / f"{scan}_connectivity.json").read_text())
        views = np.load(duet / "views" / f"{scan}.npy")
        for row, place in enumerate(graph):
            if place["included"]:
                want = rows[f"{scan}_{place['image_id']}"]
                assert views[row, 0, :3].tolist() == want["view_0_first_3"]
                assert views[row, 35, 767] == want["view_35_col_767"]
                assert views[row].sum() == want["sum_first_768"]


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("R4R_val_seen_enc.json", "item 1 is an item of R4R"),
        ("REVERIE_val_seen.json", "item 1 is an item of REVERIE"),
        ("NDH_val_seen.json", "item 1 is an item of CVDN (NDH)"),
        ("R2R_scalevln_ft_aug_enc.json", ""),
    ],
)
def test_released_annotations(duet: Path, name: str, told: str) -> None:
    prepared(duet)
    shutil.rmtree(duet.parent / "houses")
    for split in ("val_seen",) if told else ("train", "val_seen"):
        shutil.copyfile(
            duet / "released" / "annotations" / name, duet / "annotations" / f"R2R_{split}.json"
        )
    if told:
        assert told in refusal(prepared, duet)
    else:
        episodes = json.loads((prepared(duet) / "00900-Made2House" / "episodes.json").read_text())
        assert [i["path_id"] for i in episodes["train"]] == ["hm3d_7"]
