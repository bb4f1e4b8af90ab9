"""`fedsuite report` as people type it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulations.commands import cli as command
from tests.harness import exit_code_of
from tests.written_runs import houses_run, parties_run, round_row, silos_run, write_run

ROOT = Path(__file__).parents[3]
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
OFFLINE = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000",
)  # fmt: skip


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`call("runs/a")` in `tmp_path`, in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    houses_run(tmp_path / "runs" / "quick", 0, 0.4)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedsuite", "report", *arguments])
        code = exit_code_of(command.main)
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_tables_come_to_the_terminal_and_files_where_they_are_named(call, tmp_path: Path) -> None:
    code, out, err = call("quick")
    assert (code, err) == (0, "") and "SR val-unseen" in out
    code, out, err = call("quick", "-o", "quick.md", "-o", "quick.tex")
    assert (code, out.split("\n")[:2], err) == (0, ["written: quick.md", "written: quick.tex"], "")
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "quick.md", "quick.tex"}
    before = (tmp_path / "quick.md").read_bytes()
    code, _, err = call("quick", "-o", "quick.md")
    assert (code, err.count("\n")) == (2, 1) and "is there already" in err
    assert call("quick", "-o", "quick.md", "--overwrite")[0] == 0
    assert (tmp_path / "quick.md").read_bytes() == before


def test_a_coloured_log_gets_no_turning_line(call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    code, out, err = call("quick")
    assert code == 0 and "\x1b[" in out and not err


def test_it_loads_no_torch(tmp_path: Path) -> None:
    """But for a completed CDL run, whose network's parameters are counted."""
    houses_run(tmp_path / "vln", 0, 0.4)
    parties_run(tmp_path / "rl", "fedrl", 0, 0.8)
    write_run(tmp_path / "cdl", "cdl", [round_row(0, rmse=0.4, mae=0.3)], status="stopped")
    probe = f"""
import sys
from simulations.commands.cli import app
app(["report", {str(tmp_path)!r}, "-o", {str(tmp_path / "all.html")!r}], standalone_mode=False)
print(sorted({{"torch", "flwr", "ray", "scipy.signal"}} & sys.modules.keys()))
"""
    out = subprocess.check_output([sys.executable, "-c", probe], cwd=ROOT, text=True)
    assert out.splitlines() == [f"written: {tmp_path / 'all.html'}", "[]"]
    page = (tmp_path / "all.html").read_text()
    assert all(name in page for name in ("fedvln", "fedrl", "cdl"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nothing"], "nothing: no run, and no folder of runs"),
        (["quick", "-o", "a.docx"], "-o a.docx: expected a name that ends in one of .html, .md, .tex, .pdf, /"),
        (["quick", "-o", "no/such/a.md"], "no/such/a.md"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(call, arguments: list[str], complaint: str) -> None:
    code, _, err = call(*arguments)
    assert code == 2 and complaint in err and err.count("\n") == 1


def test_damaged_runs_are_named(call, tmp_path: Path) -> None:
    history = tmp_path / "runs" / "quick" / "history.jsonl"
    sound = history.read_text()
    history.write_text("{}\n" + sound)
    code, _, err = call("quick")
    assert code == 2 and f"{history}: line 1 is damaged" in err and err.count("\n") == 1
    history.write_text(sound)
    model = tmp_path / "runs" / "quick" / "model.safetensors"
    model.write_bytes(b"torn")
    code, _, err = call("quick")
    assert code == 2 and f"{model}: cannot be read" in err and err.count("\n") == 1
    model.unlink()
    (tmp_path / "runs" / "quick" / "config.json").unlink()
    code, _, err = call("quick")
    assert code == 2 and "config.json" in err and err.count("\n") == 1


RUNS = {"houses": houses_run, "silos": silos_run, "parties": parties_run}
CUTS = {
    "nothing left": lambda lines: [],
    "the first round only": lambda lines: lines[:1],
    "the last line": lambda lines: lines[:-1],
    "the last two": lambda lines: lines[:-2],
    "half of the last line": lambda lines: [*lines[:-1], lines[-1][: len(lines[-1]) // 2]],
    "a round between others": lambda lines: [x for x in lines if '"round": 1' not in x],
    "the beginning": lambda lines: [x for x in lines if '"round": 2' in x],
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("kind", RUNS)
def test_a_completed_run_whose_history_was_cut_is_refused(call, tmp_path: Path, kind: str, cut: str) -> None:  # fmt: skip
    """In one line; a run that goes on may end anywhere."""
    arguments = {"houses": (0, 0.4), "parties": ("fedrl", 0, 0.8)}.get(kind, ())
    run = RUNS[kind](tmp_path / "runs" / "cut", *arguments)
    assert call("cut")[0] == 0
    history = run / "history.jsonl"
    history.write_text("".join(CUTS[cut](history.read_text().splitlines(keepends=True))))
    code, out, err = call("cut")
    if kind == "parties" and cut == "a round between others":  # its only one before the last
        assert code in (0, 2) and "Traceback" not in out + err
        return
    assert code == 2 and err.count("\n") == 1 and f"{history}: " in err and "it was cut" in err
    status = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**status, "status": "failed"}))
    assert call("cut")[0] == 0


def test_a_run_whose_last_step_had_no_metrics_is_whole(call, tmp_path: Path) -> None:
    """Its history has no line of it, but its times say that it came."""
    run = houses_run(tmp_path / "runs" / "whole", 0, 0.4)
    history = run / "history.jsonl"
    lines = [x for x in history.read_text().splitlines(keepends=True) if '"closing' not in x]
    history.write_text("".join(lines))
    assert call("whole")[0] == 2
    said = {"round": 2, "kind": "closing", "seconds": 0.1, "metrics": {}}
    (run / "timings.jsonl").write_text(json.dumps(said) + "\n")
    assert call("whole")[0] == 0


def opened(page: Path) -> tuple[str, str, set[str]]:
    """The page as a browser has it when all has run; what the browser complained of; addresses that the page asked for."""
    folder = page.parent
    log = folder / "net.json"
    more = [f"--user-data-dir={folder / 'chrome'}", f"--log-net-log={log}", "--dump-dom"]
    done = subprocess.run(
        [str(BROWSER), *OFFLINE, *more, f"file://{page}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = [e.get("params", {}) for e in json.loads(log.read_text())["events"]]
    # The browser asks for things of its own; what a page asks for comes from its origin, "null" for a file.
    asked = {
        p["url"]
        for p in found
        if "url" in p and p.get("initiator", "").startswith(("null", "file"))
    }
    return (
        done.stdout,
        done.stderr,
        {url for url in asked if not url.startswith(("data:", "file:"))},
    )


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_a_browser_opens_the_page_without_errors_or_requests(call, tmp_path: Path) -> None:
    assert call("quick", "-o", "quick.html")[0] == 0
    text, complaints, asked = opened(tmp_path / "quick.html")
    assert "CONSOLE" not in complaints and not asked
    pressed = re.findall(r'<button[^>]*aria-pressed="(true|false)"', text)
    assert pressed == ["true", *["false"] * 4]  # the script ran, under the page's own policy


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium here")
def test_a_page_that_asks_for_something_would_be_noticed(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<img src="http://127.0.0.1:9/x.png">')
    assert opened(tmp_path / "page.html")[2] == {"http://127.0.0.1:9/x.png"}
