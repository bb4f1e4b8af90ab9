"""What is seen of a run from outside: numbers for Prometheus and for `deploy status`, by a run on nodes that are lost."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from fedsuite.history import HISTORY, Kind, event, read_rows
from fedsuite.runs.folder import RunFolder
from simulations.client_app import app as client_app
from simulations.deploy import meter
from simulations.deploy.check.registered import Registered
from simulations.deploy.check.status import lines_about, status_rows
from simulations.deploy.meter import METRICS, NOW, Meter, metered, seen_in
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import serve
from simulations.systems import to_run_config
from tests.harness import toy_settings
from tests.mistakes.test_odd_values import with_odd_values

LINE = re.compile(r'fedsuite_(\w+)\{run="((?:[^"\\\n]|\\.)*)"\} (-?[\d.e+]+)')


def numbers(text: str) -> dict[str, float]:
    """The samples of a textfile, each announced by its type, as the format wants it."""
    found = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            announced = line.split()[2].removeprefix("fedsuite_")
        elif not line.startswith("#"):
            sample = LINE.fullmatch(line)
            assert sample and sample[1] == announced, line
            found[sample[1]] = float(sample[3])
    return found


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(NOW, str(tmp_path / "now"))
    monkeypatch.setenv(METRICS, str(tmp_path / "textfiles"))
    (tmp_path / "textfiles").mkdir()
    return tmp_path


def test_a_run_is_told_in_numbers_of_its_own_history(places: Path) -> None:
    settings = toy_settings(places / "runs")
    config, folder = to_run_config(settings), RunFolder(places / "runs" / "run")
    during: list[dict[str, float]] = []
    with server_identity(), metered(folder, 77) as hear:

        def told(happened: object) -> None:
            hear(happened)  # type: ignore[arg-type]
            if file.is_file():
                during.append(numbers(file.read_text()))

        file = places / "textfiles" / "fedsuite-run.prom"
        serve(InProcessGrid(client_app, settings.num_clients, config), config, told)
    last, rows = numbers(file.read_text()), read_rows(folder.path / HISTORY)
    final = [row for row in rows if row["round"] == settings.num_rounds and row["kind"] == "client"]
    assert during[0]["running"] == 1 and during[0]["members"] == settings.num_clients
    assert [d["round"] for d in during] == sorted(d["round"] for d in during)
    ends = [d for d in during if d["round"] == settings.num_rounds]
    sums = [sum(row[f"bytes-{way}"] for row in final) for way in ("down", "up")]
    assert min(sums) > 0
    assert sums in [[d["round_bytes_down"], d["round_bytes_up"]] for d in ends]
    assert all(d["round_seconds"] > 0 for d in ends)
    assert (last["running"], last["round"], last["rounds"]) == (0, *[settings.num_rounds] * 2)
    assert (last["members_online"], last["lost_total"]) == (settings.num_clients, 0)
    (seen,) = seen_in(places / "now")
    assert (seen.run, seen.flower_run, seen.running) == ("run", "77", 0)
    assert [p.name for p in (places / "textfiles").iterdir()] == [file.name]  # nothing half


def round_over(number: int, rejected: int = 0) -> dict[str, object]:
    sizes = {"bytes-down": 10, "bytes-up": 20, "rejected": rejected}
    return {**event(number, Kind.ROUND), "seconds": 2.5, "metrics": {}, **sizes}


def test_members_that_are_lost_and_come_back_are_counted() -> None:
    seen = Meter("run", "/runs/run", "7")
    seen.hear(event(0, Kind.READY) | {"clients": 3, "rounds": 5})
    for name in ("oak", "elm", "oak"):
        assert seen.hear(event(1, Kind.LOST) | {"client": name})
    assert (seen.members_online, seen.lost_total) == (1, 3)
    seen.hear(event(1, Kind.SENT_AGAIN) | {"client": "oak"})
    assert seen.members_online == 2
    assert not seen.hear(event(1, Kind.CLIENT) | {"name": "oak", "status": "ok"})
    assert not seen.hear(event(1, Kind.CLIENT) | {"name": "elm", "status": "error"})
    assert seen.hear(event(1, Kind.CLIENT) | {"name": "elm", "status": "ok"})
    seen.hear(round_over(1, rejected=2))
    seen.hear(round_over(2, rejected=1))
    told = numbers(seen.text())
    assert (told["members_online"], told["rejected_total"], told["round"]) == (3, 3, 2)
    assert (told["round_seconds"], told["round_bytes_down"]) == (2.5, 10)


def test_names_are_escaped_as_the_format_wants() -> None:
    text = Meter('a "b" \\ c', "/runs", "7").text()
    assert '{run="a \\"b\\" \\\\ c"}' in text and numbers(text)["running"] == 1


def test_what_cannot_be_written_is_said_once_and_costs_nothing(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (places / "textfiles").rmdir()
    with metered(RunFolder(places / "runs" / "run"), 7) as hear:
        hear(round_over(1))
        hear(round_over(2))
    out = capsys.readouterr().out
    assert out.count("not written for `fedsuite deploy status` or Prometheus: ") == 1
    assert seen_in(places / "now")[0].round == 2


def test_without_a_deployment_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (NOW, METRICS):
        monkeypatch.delenv(name, raising=False)
    with metered(RunFolder(tmp_path / "run"), 7) as hear:
        hear(round_over(1))
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_passed_over(places: Path) -> None:
    (places / "now").mkdir()
    for name, text in (("a", "{"), ("b", "[]"), ("c", json.dumps({"run": "old"}))):
        (places / "now" / f"{name}.json").write_text(text)
    assert meter.seen_in(places / "now") == []


def test_an_odd_entry_is_passed_over_or_shown(places: Path) -> None:
    nodes = {"oak": {"torch": "2.9.0"}, "elm": {"torch": "2.8.0"}}
    whole = asdict(Meter("run", "/runs/run", "7", members=2, away=["elm"], nodes=nodes))
    oak = Registered("oak", "SHA256:" + "o" * 43, 7, "online", "2026-01-02 03:04:05")
    shown: list[Meter] = []
    (places / "now").mkdir()
    for what, changed in with_odd_values(whole):
        (places / "now" / "run.json").write_text(json.dumps(changed))
        seen = seen_in(places / "now")
        try:
            rows = status_rows([oak], None, seen)
            "".join([*lines_about(seen), json.dumps(rows)]).encode()
        except Exception as error:
            raise AssertionError(f"{what}: {error!r}") from error
        shown += seen
    assert len(shown) > 20
    for run in shown:
        assert {type(number) for number in (run.round, run.members, run.lost_total)} == {int}
