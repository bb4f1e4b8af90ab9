"""`from simulations import run`: the same run as the command's, as frames, with exceptions for errors."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.text import Text

import simulations
from fedsuite import report, run
from fedsuite.errors import InputError, RunFailed
from fedsuite.reports.page.model import Report
from simulations.app.in_turn import WAITS
from simulations.experiments.notebook import NotebookLine
from tests.cdl_runs import config_of, digests, settings_from
from tests.harness import ROOT, write_settings
from tests.mistakes.refusing import Call
from tests.toy import VALIDATED

TOY = 'system = "tests.toy:SYSTEM"\nnum-rounds = 3\n'


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("toy.toml").write_text(TOY, encoding="utf-8")
    return "toy.toml"


def test_it_is_the_commands_run(toy: str, call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    frames = run(toy, seed=4, results_dir="a", name="x", **{"step-size": 0.05})
    assert "round 3/3" in capsys.readouterr().out
    assert list(frames.rounds["round"]) == [0, 1, 2, 3] and set(frames.rounds["run"]) == {"x"}
    assert set(frames.clients["partition"]) == {0, 1, 2}
    sets = ("seed=4", "results-dir=b", "name=x", "step-size=0.05")
    assert call("run", toy, *(word for s in sets for word in ("--set", s)))[0] == 0
    assert Path("a/x/history.jsonl").read_bytes() == Path("b/x/history.jsonl").read_bytes()


def test_several_runs_and_none_of_the_words(toy: str, capsys: pytest.CaptureFixture[str]) -> None:
    frames = run(toy, seeds=[0, 1], num_rounds=1, quiet=True)
    assert [run.name.rpartition("/")[2] for run in frames.runs] == ["seed-0", "seed-1"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"config": "cdl/quickstrat"}, "did you mean cdl/quickstart"),
        ({"num_round": 1}, "did you mean 'num-rounds'"),
        ({"num_rounds": [1]}, "expected text, a number, True or False, got list"),
        ({"num_rounds": 1, "num-rounds": 1}, "given twice"),
        ({"num_rounds": True}, "num-rounds must be a whole number"),
        ({"config": 3}, "config must be the path or name"),
        ({"seeds": 3}, "seeds must be a list of whole numbers"),
        ({"seeds": "0,1"}, "seeds must be a list of whole numbers"),
        ({"only": [1]}, "only must be a list of names"),
        ({"overwrite": "no"}, "overwrite must be True or False, got 'no'"),
        ({"only": "wide"}, "no variant 'wide'|has no variants|--only"),
    ],
)
def test_bad_input_is_an_exception(toy: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(**{"config": toy, **given})
    assert [p.name for p in Path.cwd().iterdir()] == [toy]


def test_a_failed_run_is_an_exception_too(toy: str) -> None:
    with pytest.raises(RunFailed):
        run(toy, fault="nan", name="x", quiet=True)


def test_a_stopped_run_goes_on(toy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Ctrl-C, or a notebook's stop button, between two rounds."""
    rounds = iter(range(100))

    def stop(*_: object) -> None:
        if next(rounds) == 12:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("simulations.experiments.progress.RunDisplay.show", stop)
        with pytest.raises(KeyboardInterrupt):
            run(toy, name="x")
    frames = run(resume="x")
    assert list(frames.rounds["round"]) == [0, 1, 2, 3]
    run(toy, name="y")
    assert Path("runs/x/history.jsonl").read_bytes() == Path("runs/y/history.jsonl").read_bytes()


def test_threads_take_turns(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Networks and dropout of all of them draw from torch's one global generator."""

    def play(name: str, seed: int) -> tuple[str, str]:
        settings = settings_from(config_of(cache, tmp_path, name, seed=seed))
        run(write_settings(tmp_path / f"{name}.toml", settings))
        return digests(tmp_path, name)

    alone = [play(f"alone-{seed}", seed) for seed in range(2)]
    assert alone[0] != alone[1] and WAITS not in capsys.readouterr().out
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(play, ("one", "two"), range(2))) == alone
    assert WAITS in capsys.readouterr().out


def test_importing_the_package_is_quick() -> None:
    code = "import sys, simulations; print([m for m in ('flwr', 'torch', 'rich', 'pandas') if m in sys.modules])"
    told = subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True, timeout=60)
    assert told == "[]\n"
    with pytest.raises(AttributeError, match="walk"):
        simulations.walk  # noqa: B018


def test_a_notebook_gets_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Shown:
        def update(self, line: Text) -> None:
            seen.append(str(line))

    def display(line: Text, display_id: bool) -> Shown:
        seen.append(str(line))
        return Shown()

    module = ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    line = NotebookLine(Text("starting"))
    line.start()
    line.update(Text("round 1/3"))
    line.stop()
    assert seen == ["starting", "round 1/3", ""]


def test_settings_are_validated_once(toy: str) -> None:
    """Not again by the engine and the server, which are in the same process."""
    VALIDATED.clear()
    run(toy, system="tests.toy:COUNTED", num_rounds=1, quiet=True)
    assert len(VALIDATED) == 1


def test_a_report_on_what_was_run(toy: str, tmp_path: Path) -> None:
    """Of a Run, of Runs and of names; files are not written over, and a notebook gets a page of its own."""
    played, several = (
        run(toy, quiet=True),
        run(toy, seeds=[0, 1], num_rounds=1, name="s", quiet=True),
    )
    made = report(played, tmp_path / "page.html")
    assert isinstance(made, Report) and made.title == played.name
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!") and made.title in page
    frame = made._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and frame.count("<") == 2
    with pytest.raises(InputError, match=r"page\.html: is there already"):
        report(played, tmp_path / "page.html")
    both = report([played, "runs/s"], ["all.md", "all.tex"], overwrite=True)
    assert Path("all.md").is_file() and Path("all.tex").is_file() and len(both.parts) == 1
    tables = [[s.tables for s in report(of).parts[0].sections] for of in (several, "runs/s")]
    assert tables[0] == tables[1] and tables[0][0]
