"""Fixtures of all CDL tests: one cache of silos, runs without drawings, and calls of the command line."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import fedsuite.driving.report.run
from simulations.commands import cli as command
from tests.cdl_runs import TINY
from tests.harness import exit_code_of, toml_from


@pytest.fixture(autouse=True)
def tidy(tmp_path: Path) -> Iterator[None]:
    """Run folders go at once: together they would fill over a gigabyte."""
    yield
    shutil.rmtree(tmp_path)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without their drawings, which take longer than such a run."""
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, run_dir: None)
    monkeypatch.setattr(fedsuite.driving.report.run, "write_results", lambda config, run_dir: None)


@pytest.fixture
def call(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`call(changes, end)` runs a TOML of the tiny run in `tmp_path`: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(changes: Mapping[str, Any], end: str = "") -> tuple[int, str, str]:
        table = {**TINY, "cache-dir": str(cache), **changes}
        (tmp_path / "x.toml").write_text(toml_from(table) + end)
        monkeypatch.setattr(sys, "argv", ["fedsuite", "run", "x.toml", "--engine", "inprocess"])
        code = exit_code_of(command.main)
        out, err = capsys.readouterr()
        return code, out, err

    return call
