"""Settings, matrices and drives that cannot work are refused in one line; good drives become silos."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedsuite.driving.report.run
from fedsuite.history import read_rows
from tests.cdl_runs import write_drives


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mixings-per-round": 2}, "mixings-per-round: 2"),
        ({"num-silos": 12}, "data.num-silos: 12 silos, but underlay gaia has 11 nodes"),
        ({"fold": 5}, "data.fold: 5, but data.test-share=0.2 makes 5 folds; choose one of 0 to 4"),
        ({"scenario": "cll", "silos-per-client": 2}, "silos-per-client"),
        ({"silos-per-client": 5}, "silos-per-client: 5, but ring has 4 silos here; set it to 4"),
        ({"scenario": "custom"}, "underlay-file: scenario custom mixes by your own"),
        ({"cache-dir": ""}, "data.cache-dir must be a text that is not empty"),
        ({"data-dir": "nowhere"}, "nowhere"),
        ({"model": "inception_v3", "image-size": 64}, "inception_v3 needs at least 75 pixels"),
        ({"model": "fadnet", "share-stem": True}, "share-stem"),
        ({"influence": "exponential"}, "influence-floor"),
        ({"loss": "kl_release", "loss-space": "feature"}, "feature, but kl_release has no such form; set it to prediction"),
        ({"loss": "cd_k", "loss-space": "gaussian"}, "gaussian, but cd_k has no such form; set it to prediction or feature"),
        ({"sub-network": "own", "share-stem": True}, "share-stem: with objective.sub-network=own no tensor of the"),
        ({"sub-network": "reset", "loss": "kl_release"}, "objective.sub-network: reset, but kl_release sends its own"),
        ({"sub-network": "mean"}, "objective.sub-network"),
        ({"batch-size": 1, "image-size": 32, "batch-norm": "average"}, "batch-size"),
        ({"data-weighted": True}, "data-weighted"),
        ({"batch-norm": "local", "cross-evaluation": True}, "cross-evaluation"),
        ({"share": "!trunk.head", "cross-evaluation": True}, "cross-evaluation"),
        ({"learning-rate": -1.0}, "learning-rate"),
        ({"optimizer": "gradient-tracking", "local-updates": 3}, "local-updates: 3, but gradient-tracking makes one update"),
        (
            {"optimizer": "qg-momentum", "scenario": "star", "data-weighted": True},
            "data-weighted: qg-momentum needs a mixing matrix whose columns sum to 1; set it to false",
        ),
        (
            {"optimizer": "qg-momentum", "num-silos": 11},
            "optimizer: qg-momentum drives silos apart over ring with 11 silos (differences grow by 1.039 a",
        ),
        ({"optimizer": "qg-nesterov", "merge": "clipped"}, "merge: qg-nesterov needs"),
        *(
            ({"optimizer": "relay-sgd", "scenario": name}, f"scenario: {name}, but relay-sgd relays models along a tree")
            for name in ("ring", "matcha", "matcha_plus", "fedavg", "fedprox", "star", "complete", "local")
        ),
        ({"optimizer": "relay-sgd", "scenario": "mst", "merge": "clipped"}, "merge: clipped, but relay-sgd takes the mean"),
        ({"optimizer": "relay-sgd", "scenario": "mst", "mixing-matrix": "fmmc"}, "mixing-matrix: fmmc, but relay-sgd"),
        ({"optimizer": "relay-sgd", "scenario": "mst", "data-weighted": True}, "data-weighted: mst mixes with neighbours"),
        ({"optimizer": "quasi-global"}, "training.optimizer"),
        ({"loss": "klx"}, "loss"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(
    call: Any, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    check_refusal(call(changes), words)
    assert [p.name for p in tmp_path.iterdir()] == ["x.toml"]


def check_refusal(answer: tuple[int, str, str], words: str) -> None:
    code, out, err = answer
    assert code == 2, (out, err)
    assert err.startswith("error: ") and err.count("\n") == 1 and err.endswith("\n")
    assert words in err and "Traceback" not in out + err


MATRICES = {
    "a row that sums to 0.9": ("0.5,0.4,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n", "row 1"),
    "a negative weight": ("1.5,-0.5,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n", "row 1"),
    "two islands": (".5,.5,0,0\n.5,.5,0,0\n0,0,.5,.5\n0,0,.5,.5\n", "not connected"),
    "five silos": ("\n".join(",".join(["0.2"] * 5) for _ in range(5)) + "\n", "5 silos"),
    "a word": ("0.5,half,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n", "'half'"),
}


@pytest.mark.parametrize("matrix", MATRICES)
def test_bad_matrices_are_refused(call: Any, tmp_path: Path, matrix: str) -> None:
    text, words = MATRICES[matrix]
    (tmp_path / "own.csv").write_text(text)
    check_refusal(call({"scenario": "custom", "underlay-file": "own.csv"}), words)
    assert {p.name for p in tmp_path.iterdir()} == {"x.toml", "own.csv"}


def test_columns_that_do_not_sum_to_one_are_refused_where_they_must(
    call: Any, tmp_path: Path, undrawn: None
) -> None:
    """A ring whose silos weigh themselves differently: rows sum to 1, columns do not."""
    (tmp_path / "own.csv").write_text("0.5,0.5,0,0\n0,0.6,0.4,0\n0,0,0.7,0.3\n0.2,0,0,0.8\n")
    custom = {"scenario": "custom", "underlay-file": "own.csv", "num-rounds": 1}
    words = (
        "underlay-file: gradient-tracking needs a mixing matrix whose columns sum to 1, but silo"
    )
    check_refusal(call({**custom, "optimizer": "gradient-tracking"}), words)
    words = "federation.scenario: custom, but relay-sgd relays models along a tree"
    check_refusal(call({**custom, "optimizer": "relay-sgd"}), words)
    assert call({**custom, "optimizer": "nesterov"})[0] == 0


def lose_image(drives: Path) -> None:
    (drives / "bob" / "IMG" / "7.png").unlink()


def cut_image(drives: Path) -> None:
    path = drives / "bob" / "IMG" / "7.png"
    path.write_bytes(path.read_bytes()[:40])


def wild_label(drives: Path) -> None:
    path = drives / "bob" / "driving_log.csv"
    path.write_text(path.read_text().replace("\n7.png,-0.23", "\n7.png,-23"))


def empty_label(drives: Path) -> None:
    path = drives / "bob" / "driving_log.csv"
    path.write_text(path.read_text().replace("\n7.png,-0.23", "\n7.png,"))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lose_image, "bob/IMG/7.png"),
        (cut_image, "7.png: cannot be decoded"),
        (wild_label, "driving_log.csv"),
        (empty_label, "driving_log.csv"),
    ],
)
def test_damaged_drives_are_refused(
    call: Any, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    write_drives(tmp_path / "drives")
    damage(tmp_path / "drives")
    changes = {"data-dir": "drives", "num-silos": 0, "cache-dir": str(tmp_path / "cache")}
    check_refusal(call(changes), words)
    left = {p.name for p in tmp_path.iterdir()}
    assert left - {"cache"} == {"x.toml", "drives"}
    assert not list(tmp_path.glob("cache/[!.]*"))


def test_clients_may_not_hold_more_silos_than_there_are_drives(call: Any, tmp_path: Path) -> None:
    write_drives(tmp_path / "drives")
    changes = {"data-dir": "drives", "num-silos": 0, "silos-per-client": 6}
    check_refusal(call(changes), "silos-per-client: 6, but ring has 2 silos here; set it to 2")


@pytest.mark.parametrize(
    ("count", "changes", "words"),
    [
        (12, {}, "data.dir: 12 drives, but underlay gaia has 11 nodes; choose a larger network (federation.underlay=auto)"),
        (88, {"underlay": "auto"}, "data.dir: 88 drives, but underlay ebone has 87 nodes; set data.num-silos=87"),
        (3, {"mixings-per-round": 2}, "mixings-per-round: 2, but a00 needs a01's model"),
    ],
)  # fmt: skip
def test_what_is_said_of_drives_names_drives(
    call: Any, tmp_path: Path, count: int, changes: dict[str, Any], words: str
) -> None:
    write_drives(tmp_path / "drives", tuple(f"a{i:02d}" for i in range(count)), 2)
    check_refusal(call({"data-dir": "drives", "num-silos": 0, **changes}), words)


@pytest.mark.drawn
def test_rows_that_are_left_out_stand_in_the_results(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_drives(tmp_path / "drives")
    lose_image(tmp_path / "drives")
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, run_dir: None)
    changes = {
        "data-dir": "drives", "num-silos": 0, "bad-rows": "drop", "num-rounds": 1, "underlay": "auto",
        "silos-per-client": 0, "mixings-per-round": 2,
    }  # fmt: skip
    code, _, err = call(changes)
    assert (code, err) == (0, "")
    told = "left out (data.bad-rows = drop): bob 1."
    assert told in (tmp_path / "runs" / "cdl-x" / "results.md").read_text()


def test_drives_of_people_become_silos(call: Any, tmp_path: Path, undrawn: None) -> None:
    write_drives(tmp_path / "drives")
    changes = {"data-dir": "drives", "num-silos": 0, "cache-dir": str(tmp_path / "cache")}
    code, _, err = call(changes)
    assert (code, err) == (0, "")
    rows = read_rows(tmp_path / "runs" / "cdl-x" / "history.jsonl")
    assert {r["name"] for r in rows if r["kind"] == "client"} == {"ada", "bob"}
