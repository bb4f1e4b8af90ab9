"""`fedsuite walk` as people type it: what it prints and draws, and its refusals."""

import shutil
from pathlib import Path

import pytest

from fedsuite.roster.members import ROSTER, read_roster
from simulations.fedvln.commands import short_names
from tests.fedvln_runs import chain_in

pytestmark = pytest.mark.drawn


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny trained run."""
    return chain_in(tmp_path_factory.getbasetemp(), __name__).run("train")


@pytest.fixture(scope="module")
def house(run: Path) -> str:
    return next(m.name for m in read_roster(run / ROSTER).members if m.role == "unseen")


def test_an_instruction_of_ones_own(call, run, house, tmp_path):
    told = [
        "walk",
        str(run),
        "--house",
        house,
        "--instruction",
        "[b]Xyzzy[/b] :smile: to the kitchen.",
    ]
    code, out, err = call(*told, "-o", "walk.png", engine=False)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"{run.name}: house {house}, from ")
    assert lines[1] == "not in its vocabulary: [, b, ], xyzzy, /, ] :, smile, :"
    assert "stop" in lines[-2] or "cut off after 4 moves" in lines[-2]
    assert (tmp_path / "walk.png").read_bytes().startswith(b"\x89PNG")
    assert lines[-1] == "drawn: walk.png"
    code, out, err = call(*told, "-o", "walk.png", engine=False)
    assert code == 2 and out == ""
    assert err.startswith("error: walk.png: is there already") and err.endswith("--overwrite\n")


def test_runs_side_by_side(call, run, house, tmp_path):
    for name in ("federated", "centralised"):
        shutil.copytree(run, tmp_path / "runs" / "methods" / name / "seed-0")
    where = [f"methods/{n}/seed-0" for n in ("federated", "centralised")]
    path = house_path(run, house)
    code, out, err = call(
        "walk", *where, "--house", house, "--path", path, "-o", "two.pdf", engine=False
    )
    assert (code, err) == (0, "")
    assert [out.count(f"{n}: house {house}") for n in ("federated", "centralised")] == [1, 1]
    assert out.count("m from the goal, SPL ") == 2
    assert (tmp_path / "two.pdf").read_bytes().startswith(b"%PDF")
    code, _, err = call("walk", where[0], where[0], "--house", house, engine=False)
    assert (code, err) == (2, "error: RUN: one is given twice; give runs that differ\n")


def house_path(run: Path, house: str) -> str:
    from fedsuite.vln.walking import Walker

    return str(Walker.of_run(run, house).house.samples["val_unseen"][0].path_id)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "house: give one of train; seen: "),
        (["--house", "nope"], "house: train has no 'nope'; valid: "),
        (["--house", "HOUSE"], "instruction: none was given"),
        (["--house", "HOUSE", "--instruction", ""], "instruction: it holds no word"),
        (["--house", "HOUSE", "--path", "x"], 'has no annotated path "x"'),
        (["--house", "HOUSE", "--instruction", "go", "--heading", "nan"], "heading: expected"),
        (["--house", "HOUSE", "--instruction", "go", "--personal"], "personal: train keeps no"),
        (["--house", "HOUSE", "--instruction", "go", "-o", "a.xyz"], "a.xyz: cannot draw this"),
    ],
)
def test_refusals(call, run, house, options, complaint):
    options = [house if o == "HOUSE" else o for o in options]
    code, _, err = call("walk", str(run), *options, engine=False)
    assert code == 2 and err.startswith("error: ") and complaint in err and err.count("\n") == 1


def test_no_such_run(call):
    code, _, err = call("walk", "nowhere", engine=False)
    assert (code, err) == (2, "error: nowhere: no such run; `fedsuite runs` lists the runs\n")


def test_names_of_runs_are_what_differs():
    paths = [Path("/a/runs/r2r/federated/seed-0"), Path("/a/runs/r2r/centralised/seed-0")]
    assert short_names(paths) == ["federated", "centralised"]
    assert short_names(paths[:1]) == ["seed-0"]
    assert short_names([Path("/a/b"), Path("/a/b/c")]) == ["b", "b/c"]
