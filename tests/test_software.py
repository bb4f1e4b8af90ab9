"""Programs and machines: what must be alike for a node to take part, and what is said of the rest."""

import os
import platform
from pathlib import Path

import pytest

from fedsuite.roster import software
from fedsuite.roster.software import differences, facts, keeping_out, of_here, told_by
from fedsuite.storage.installed import version_of

HERE = {"roster": "a1", "version": "2.0.0", "flwr": "1.42.0"}


@pytest.mark.parametrize(
    ("there", "fact"),
    [
        ({}, ""),
        ({"flwr": "1.42.7"}, ""),  # of one minor version
        ({"torch": "1.0"}, ""),
        ({"flwr": "1.41.0"}, "flwr"),
        ({"flwr": "2.42.0"}, "flwr"),
        ({"flwr": 1}, "flwr"),
        ({"version": "2.0.1"}, "version"),
        ({"roster": "b2"}, "roster"),
        ({"version": "2.0.1", "roster": "b2"}, "version"),  # another version reads other rosters
        ({"flwr": "1.41.0", "version": "2.0.1", "roster": "b2"}, "flwr"),
    ],
)
def test_what_keeps_a_node_out(there: dict[str, object], fact: str) -> None:
    assert keeping_out(HERE, {**HERE, **there}) == fact
    assert keeping_out({}, there) == ""  # a server that says nothing asks for nothing


def test_what_is_not_told_keeps_a_node_out_too() -> None:
    for left_out in HERE:
        there = {key: value for key, value in HERE.items() if key != left_out}
        assert keeping_out(HERE, there) == left_out


def test_what_a_node_tells_is_shown_without_its_roster() -> None:
    said = {**HERE, **facts("a1"), **of_here(), "partition": 3, "gpu": "a\nb" + 200 * "c"}
    told = told_by(said)
    assert list(told) == ["fedsuite", "flwr", "torch", "numpy", "python", "cpu", "gpu"]
    assert told["torch"] == version_of("torch") and told["python"] == platform.python_version()
    assert told["gpu"].endswith("c (cut)") and len(told["gpu"]) < 90 and "\n" not in told["gpu"]
    assert told_by({"version": "1.9.0", "name": "oak"}) == {"fedsuite": "1.9.0"}


def test_differences_are_told_with_the_nodes_that_have_them() -> None:
    alike = {"fedsuite": "2.0.0", "torch": "2.9.0", "cpu": "a, 2 cores"}
    nodes = {name: alike for name in ("oak", "ash", "elm")}
    assert differences(nodes) == "" == differences({})
    nodes |= {"fir": {**alike, "torch": "2.8.0"}}
    assert differences(nodes) == "torch 2.9.0 (oak, ash, elm), 2.8.0 (fir)"
    nodes |= {"yew": {"fedsuite": "2.0.0", "torch": "2.9.0"}}
    assert differences(nodes) == (
        "torch 2.9.0 (oak, ash, elm and 1 more), 2.8.0 (fir); "
        "cpu a, 2 cores (oak, ash, elm and 1 more), not told (yew)"
    )


def test_a_processor_is_known_by_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(software, "Path", lambda _: info)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    processor = software._processor
    assert processor() == "riscv64, 3 cores"  # a system that has no such file
    info.write_text("processor\t: 0\nmodel name\t: Fast: 9\n\nprocessor\t: 1\nmodel name\t: Slow\n")
    assert processor() == "Fast: 9, 3 cores"
    info.write_text("processor\t: 0\n")
    assert processor() == "riscv64, 3 cores"
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(platform, "machine", lambda: "")
    assert processor() == "unknown, 8 cores"
