"""Where a run's houses come from: caching, checks before training, generated houses."""

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import load_vocabulary
from fedsuite.vln.data.roster import make_roster, open_house
from tests.harness import changed

ROOT = Path(__file__).parents[3]

pytest.importorskip("fedsuite.vln.generator.houses")


@pytest.fixture
def sources():
    """The module, with nothing remembered."""
    from fedsuite.vln.data import sources

    sources.open_sources.cache_clear()
    yield sources
    sources.open_sources.cache_clear()


@pytest.fixture
def config(data_dir: Path) -> FedVLNConfig:
    return changed(
        FedVLNConfig(),
        data_dir=str(data_dir),
        features=str(data_dir / "features.tsv"),
        cache_dir=str(data_dir.parent / "cache"),
        min_word_count=2,
    )


def refusal(work, *arguments) -> str:
    with pytest.raises(InputError) as error:
        work(*arguments)
    message = str(error.value)
    assert "\n" not in message
    return message


def cached(config: FedVLNConfig) -> set[str]:
    return {p.name for p in Path(config.data.cache_dir).iterdir() if p.is_dir()}


def test_files_are_converted_once(sources, config):
    said: list[tuple[object, ...]] = []
    got = sources.prepare_sources(config, lambda *step: said.append(step))
    assert said and len(cached(config)) == 2
    assert got.training_scans == ["oak", "elm"] and got.unseen_scans == ["ash"]
    assert got.feature_size == 8 and got.manifest["vocabulary"] == got.manifest["vocabulary"]
    assert {f.name for f in got.views_dir.iterdir()} == {
        "oak.npy",
        "elm.npy",
        "ash.npy",
        "views.json",
    }
    said.clear()
    sources.open_sources.cache_clear()
    assert sources.prepare_sources(config, lambda *step: said.append(step)) == got and not said


def test_changed_files_are_converted_again(sources, config):
    sources.prepare_sources(config)
    before = cached(config)
    features = Path(config.data.features)
    text = features.read_text(encoding="utf-8")
    features.write_text(text + text.splitlines()[0] + "\n", encoding="utf-8")
    train = Path(config.data.dir) / "annotations" / "R2R_train.json"
    train.write_text(train.read_text() + "\n")
    sources.open_sources.cache_clear()
    sources.prepare_sources(config)
    assert before < cached(config) and len(cached(config)) == 4


def edit_connectivity(config: FedVLNConfig, scan: str = "ash") -> Path:
    """The file with its panoramas in another order; returns it."""
    file = Path(config.data.dir) / "connectivity" / f"{scan}_connectivity.json"
    turned = [{**r, "unobstructed": r["unobstructed"][::-1]} for r in json.loads(file.read_text())]
    file.write_text(json.dumps(turned[::-1]))
    return file


@pytest.mark.parametrize("linked", [False, True])
def test_views_follow_changed_connectivity(sources, config, linked, tmp_path):
    folder = Path(config.data.dir) / "connectivity"
    if linked:
        folder.rename(tmp_path / "elsewhere")
        folder.mkdir()
        for file in (tmp_path / "elsewhere").iterdir():
            (folder / file.name).symlink_to(file)
    before = np.load(sources.prepare_sources(config).views_dir / "ash.npy")
    edit_connectivity(config)
    sources.open_sources.cache_clear()
    after = np.load(sources.prepare_sources(config).views_dir / "ash.npy")
    assert np.array_equal(after, before[::-1]) and not np.array_equal(after, before)
    assert len(cached(config)) == 4


def test_a_link_that_leads_to_another_house_makes_another_folder(sources, config):
    folder = Path(config.data.dir) / "connectivity"
    (folder / "fir_connectivity.json").symlink_to(folder / "ash_connectivity.json")
    before = sources.places_of(config)
    (folder / "fir_connectivity.json").rename(folder / "yew_connectivity.json")
    after = sources.places_of(config)
    assert before.houses_dir != after.houses_dir and before.views_dir != after.views_dir


def test_a_link_that_leads_nowhere(sources, config):
    link = Path(config.data.dir) / "connectivity" / "fir_connectivity.json"
    link.symlink_to("nowhere")
    assert f"{link}: cannot be read" in refusal(sources.prepare_sources, config)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_prepared_folder_with_values_that_are_not_finite(
    sources, config, prepared, bad, tmp_path
):
    shutil.copytree(prepared.views_dir, tmp_path / "v")
    views = np.load(tmp_path / "v" / "elm.npy")
    good, views[3, 5, 2] = views.copy(), bad
    np.save(tmp_path / "v" / "elm.npy", views)
    own = changed(config, features=str(tmp_path / "v"))
    for _ in "ab":
        message = refusal(sources.prepare_sources, own)
        assert message.startswith(
            f"{tmp_path / 'v' / 'elm.npy'}: the views of elm, viewpoint elm-3,"
        )
    np.save(tmp_path / "v" / "elm.npy", good)
    sources.prepare_sources(own)


def test_values_are_checked_once(sources, config, monkeypatch):
    sources.prepare_sources(config)
    sources.open_sources.cache_clear()
    monkeypatch.setattr(sources.np, "isfinite", None)
    sources.prepare_sources(config)


def test_a_float64_file_is_converted_where_its_width_is_given(sources, config):
    file = Path(config.data.features)
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        values = np.frombuffer(base64.b64decode(line[5]), np.float32).astype(np.float64)
        line[5] = base64.b64encode(values.tobytes()).decode()
    file.write_text("\n".join("\t".join(line) for line in lines) + "\n", encoding="utf-8")
    assert "looks like 8 float64" in refusal(sources.prepare_sources, config)
    assert sources.prepare_sources(changed(config, feature_size=8)).feature_size == 8


@pytest.mark.parametrize("name", ["vocabulary.json", "manifest.json"])
def test_prepared_files_that_are_damaged(sources, config, name):
    houses = sources.prepare_sources(config).houses_dir
    text = (houses / name).read_text()
    for content in (text[:-5], "[" * 200_000):
        (houses / name).write_text(content)
        sources.open_sources.cache_clear()
        load_vocabulary.cache_clear()
        message = refusal(lambda: load_vocabulary(sources.prepare_sources(config).houses_dir))
        assert message.startswith(f"{houses / name}: not as it was prepared")
    (houses / name).unlink()
    sources.open_sources.cache_clear()
    load_vocabulary.cache_clear()
    message = refusal(lambda: load_vocabulary(sources.prepare_sources(config).houses_dir))
    assert message.startswith(f"{houses / name}: no such file")


def test_a_shortened_vocabulary_is_refused(sources, config):
    houses = sources.prepare_sources(config).houses_dir
    load_vocabulary.cache_clear()
    words = json.loads((houses / "vocabulary.json").read_text())
    (houses / "vocabulary.json").write_text(json.dumps(words[:-2]))
    message = refusal(load_vocabulary, houses)
    assert f"holds {len(words) - 2} words, but manifest.json says {len(words)}" in message


TWINS = """
import multiprocessing, sys
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.sources import prepare_sources
from tests.harness import changed

data, alone, shared = sys.argv[1:]
files = {"data_dir": data, "features": f"{data}/features.tsv"} if data else {"generated_feature_size": 8}
houses = {"generated_seen_houses": 2, "generated_unseen_houses": 1, "generated_paths_per_house": 4}
config = changed(FedVLNConfig(), min_word_count=2, **files, **houses)
fork = multiprocessing.get_context("fork")  # what they need is loaded once
for cache, runs in ((alone, 1), (shared, 4)):
    own = changed(config, cache_dir=cache)
    running = [fork.Process(target=prepare_sources, args=(own,)) for _ in range(runs)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert [process.exitcode for process in running] == [0] * runs
"""


@pytest.mark.slow
@pytest.mark.parametrize("generated", [False, True])
def test_several_runs_on_one_fresh_cache_end_well(data_dir, tmp_path, generated):
    alone, shared = tmp_path / "alone", tmp_path / "shared"

    def content(cache: Path) -> dict[str, bytes]:
        files = (f for f in cache.rglob("*") if f.is_file() and not f.name.startswith("finite-"))
        return {str(f.relative_to(cache)): f.read_bytes() for f in files}

    given = "" if generated else data_dir
    command = [sys.executable, "-c", TWINS, str(given), str(alone), str(shared)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert content(shared) == content(alone) and len(content(alone)) > 5


def test_a_prepared_folder_is_used_as_it_is(sources, config, prepared):
    own = changed(config, features=str(prepared.views_dir))
    got = sources.prepare_sources(own)
    assert got.views_dir == prepared.views_dir and len(cached(own)) == 1


def test_vocabulary_setting_makes_another_folder(sources, config):
    small = sources.prepare_sources(changed(config, min_word_count=10**6))
    assert small.manifest["vocabulary"] == 4
    assert sources.prepare_sources(config).manifest["vocabulary"] > 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_dir": "nowhere"}, "data.dir: nowhere is not a folder"),
        ({"features": ""}, "data.features: empty, but data.dir is set"),
        ({"features": "nowhere.tsv"}, "data.features: nowhere.tsv does not exist"),
        ({"features": __file__}, "is no .tsv, .hdf5 or .h5 file"),
        ({"feature_size": 512}, "width 8, but"),
    ],
)
def test_settings_that_do_not_fit(sources, config, changes, message):
    assert message in refusal(sources.prepare_sources, changed(config, **changes))


def test_missing_annotations(sources, config):
    (Path(config.data.dir) / "annotations" / "R2R_val_unseen.json").unlink()
    assert "R2R_val_unseen.json: no such file" in refusal(sources.prepare_sources, config)


def test_features_without_one_of_the_houses(sources, config):
    file = Path(config.data.features)
    kept = [
        x
        for x in file.read_text(encoding="utf-8").splitlines(keepends=True)
        if not x.startswith("ash\t")
    ]
    file.write_text("".join(kept), encoding="utf-8")
    message = refusal(sources.prepare_sources, config)
    assert "ash.npy: no such file; the features lack house ash" in message


def rewrite(file: Path, change) -> None:
    np.save(file, change(np.load(file)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v[:-1], "expected float32 [7, 36, F], got float32 [6, 36, 8]"),
        (lambda v: v[:, :35], "expected float32 [7, 36, F], got float32 [7, 35, 8]"),
        (lambda v: v.astype(np.float64), "got float64 [7, 36, 8]"),
        (lambda v: v.reshape(7, -1), "got float32 [7, 288]"),
        (lambda v: v[:, :, :4], "has width 4, oak.npy has 8"),
    ],
)
def test_view_arrays_that_do_not_fit(sources, config, change, message):
    views = sources.prepare_sources(config).views_dir
    rewrite(views / "elm.npy", change)
    sources.open_sources.cache_clear()
    got = refusal(sources.prepare_sources, config)
    assert str(views / "elm.npy") in got or f"{views / 'elm'}.npy" in got
    assert message in got


@pytest.mark.parametrize(
    "damaged", [lambda _: b"", lambda _: b"no array", lambda whole: whole[:-200], lambda whole: whole + b"x"]
)  # fmt: skip
def test_view_files_that_are_damaged(sources, config, damaged):
    file = sources.prepare_sources(config).views_dir / "elm.npy"
    file.write_bytes(damaged(file.read_bytes()))
    sources.open_sources.cache_clear()
    assert f"{file}: truncated or no array file" in refusal(sources.prepare_sources, config)


GENERATED = changed(
    FedVLNConfig(),
    generated_seen_houses=2,
    generated_unseen_houses=1,
    generated_paths_per_house=4,
    generated_feature_size=8,
)


@pytest.mark.slow
def test_houses_are_generated_once(sources, tmp_path):
    config = changed(GENERATED, cache_dir=str(tmp_path / "cache"))
    said: list[tuple[object, ...]] = []
    got = sources.prepare_sources(config, lambda *step: said.append(step))
    assert len(got.training_scans) == 2 and len(got.unseen_scans) == 1 and got.feature_size == 8
    assert said
    said.clear()
    sources.open_sources.cache_clear()
    assert sources.prepare_sources(config, lambda *step: said.append(step)) == got and not said
    other = sources.prepare_sources(changed(config, generated_seed=1))
    assert other.houses_dir != got.houses_dir and other.views_dir != got.views_dir


@pytest.mark.slow
def test_an_interrupted_generation_starts_anew(sources, tmp_path):
    config = changed(GENERATED, cache_dir=str(tmp_path / "cache"))

    class Stop(Exception):
        pass

    def interrupt(*step: object) -> None:
        raise Stop(step)

    with pytest.raises(Stop):
        sources.prepare_sources(config, interrupt)
    assert len(sources.prepare_sources(config).training_scans) == 2


# --- a given vocabulary -----------------------------------------------------------------------


def test_a_given_vocabulary_takes_the_place_of_the_training_instructions_words(sources, config):
    file = Path(config.data.dir).parent / "train_vocab.txt"
    file.write_text("<PAD>\n<UNK>\n<EOS>\ntot\ndoor\n")
    usual = sources.prepare_sources(config)
    given, said = changed(config, vocabulary=str(file)), []
    got = sources.prepare_sources(given, lambda what, done=0, total=0: said.append(what))
    words = ("<PAD>", "<UNK>", "<EOS>", "tot", "door", "<BOS>")
    assert load_vocabulary(got.houses_dir).words == make_roster(given, got).words == words
    assert got.houses_dir != usual.houses_dir and got.views_dir == usual.views_dir
    assert [line for line in said if str(file) in line and "min-word-count is not used" in line]
    house = open_house(given, got, "oak", 0)
    tokens = house.samples["train"][0].tokens
    assert tokens[0] == 5 and set(tokens.tolist()) <= {1, 2, 4, 5}
    file.write_text("<PAD>\n<UNK>\n<EOS>\ndoor\ntot\nstairs\n")  # another file, another folder
    assert sources.places_of(given).houses_dir != got.houses_dir


@pytest.mark.parametrize("generated", [True, False])
def test_a_vocabulary_that_is_not_there_is_refused_before_anything_is_made(
    sources, config, generated
):
    named = changed(config, vocabulary="/no/such/train_vocab.txt")
    if generated:
        named = changed(named, data_dir="", features="")
    line = refusal(sources.prepare_sources, named)
    assert line.startswith("data.vocabulary: /no/such/train_vocab.txt is no file")
    assert not Path(config.data.cache_dir).exists()


@pytest.mark.slow
def test_generated_houses_read_a_given_vocabulary_too(sources, config, tmp_path):
    file = tmp_path / "words.json"
    file.write_text('["<PAD>", "<UNK>", "<EOS>", "the", "<BOS>"]')
    small = {
        "generated_seen_houses": 1,
        "generated_unseen_houses": 1,
        "generated_paths_per_house": 4,
    }
    own = changed(config, data_dir="", features="", vocabulary=str(file), **small)
    assert sources.prepare_sources(own).manifest["vocabulary"] == 5
    assert (
        sources.places_of(own).data_dir == sources.places_of(changed(own, vocabulary="")).data_dir
    )
