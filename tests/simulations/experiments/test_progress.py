import io
from typing import Any

import pytest
from rich.console import Console

from fedsuite.history import Kind, event
from fedsuite.history.events import AFTER_THE_ROUNDS
from simulations.experiments.notebook import NotebookLine
from simulations.experiments.progress import Preparing, RunDisplay, short_metrics
from simulations.server_app import in_log

EVENTS = [
    {"round": 0, "kind": "ready", "clients": 3, "rounds": 4, "seconds": 0.1},
    {"round": 0, "kind": "round", "seconds": 0.1, "metrics": {}},
    {"round": 1, "kind": "exchange", "task": "train", "clients": 3},
    {"round": 1, "kind": "client", "partition": 0},
    {"round": 1, "kind": "client", "partition": 2},
]


def test_the_line_tells_round_clients_and_latest_metrics() -> None:
    display = RunDisplay(Console(file=io.StringIO()))
    assert "starting" in str(display.line())
    for told in EVENTS:
        display.show(told)
    assert "round 0/4" in str(display.line()) and "train 2/3 clients" in str(display.line())
    display.show({"round": 1, "kind": "round", "seconds": 2.0, "metrics": {"loss": 0.123456}})
    line = str(display.line())
    assert "round 1/4" in line and "loss 0.1235" in line and "min left" in line


def test_one_line_a_round_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with RunDisplay(Console(file=out, width=40)) as display:
        for told in EVENTS:
            display.show(told)
        metrics = {f"a-long-name-{i}": 1.0 for i in range(9)}
        display.show({"round": 1, "kind": "round", "seconds": 2.04, "metrics": metrics})
        display.show({"round": 4, "kind": "closing-exchange", "task": "evaluate", "clients": 3})
        display.show({"round": 4, "kind": "closing", "seconds": 0.0, "metrics": {"sr": 0.5}})
    lines = out.getvalue().splitlines()
    assert lines == [f"round 1/4  {short_metrics(metrics)}  (2.0 s)", "closing  sr 0.5  (0.0 s)"]


def test_a_terminal_gets_a_live_line_that_leaves_nothing() -> None:
    out = io.StringIO()
    with RunDisplay(Console(file=out, force_terminal=True, width=100)) as display:
        for told in EVENTS:
            display.show(told)
    assert "train 2/3 clients" in out.getvalue()


class Terminal(io.StringIO):
    """What says of itself that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("out", "environment"),
    [(Terminal(), {"TERM": "dumb"}), (io.StringIO(), {"FORCE_COLOR": "1"})],
    ids=["cannot draw over", "coloured file"],
)
def test_lines_where_nothing_can_be_drawn_over(
    out: io.StringIO, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    console = Console(file=out, width=100)
    assert console.is_terminal
    prepare(console)
    with RunDisplay(console) as display:
        for told in EVENTS:
            display.show(told)
        display.show({"round": 1, "kind": "round", "seconds": 2.0, "metrics": {"sr": 0.5}})
    lines = ["reading", "houses: 30", "views: 2", "round 1/4  sr 0.5  (2.0 s)"]
    assert out.getvalue().splitlines() == lines


def prepare(console: Console) -> None:
    """Two kinds of many things, the second of a number that nobody knows; the first for two runs."""
    with Preparing(console) as progress:
        for _ in range(2):
            progress("reading")
            for done in range(1, 31):
                progress("houses", done, 30)
        progress("views", 1)
        progress("views", 2)
        progress("views", 2, 2)


def test_preparing_says_only_what_is_done_and_that_once() -> None:
    out = io.StringIO()
    prepare(Console(file=out, width=20))
    assert out.getvalue().splitlines() == ["reading", "houses: 30", "views: 2"]


def test_preparing_has_a_bar_on_a_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with Preparing(console) as progress:
        progress("houses", 3, 30)
        progress._bars.refresh()
        assert "3/30" in out.getvalue() and "houses: 30" not in out.getvalue()
        progress("houses", 30, 30)
        out.truncate(0)
        progress._bars.refresh()
        assert "30/30" not in out.getvalue()
    prepare(console)
    assert out.getvalue().count("houses: 30") == 1


# --- every kind of event -------------------------------------------------------------------------

ABOUT = {"round": 3, "client": "oak", "reason": "Node Unavailable"}
LOST = "round 3: oak is lost (Node Unavailable); waiting for it to come back"
BACK = "round 3: oak is back and was sent its task again"
# By kind: its fields; what a log gets; what a terminal's line gets.
WAITING = "waiting for Ray to start, 30 s"
SHOWN: dict[Kind, tuple[dict[str, Any], str, str]] = {
    Kind.WAITING: ({"for": "Ray to start", "seconds": 30}, WAITING, WAITING),
    Kind.READY: ({"rounds": 4, "clients": 3}, "", "round 3/4"),
    Kind.EXCHANGE: ({"task": "score", "clients": 3}, "", "score 0/3 clients"),
    Kind.CLIENT: ({"name": "oak", "status": "ok"}, "", "train 1/3 clients"),
    Kind.MESSAGES: ({"done": 12}, "", "12 messages"),
    Kind.LOST: (ABOUT, LOST, LOST),
    Kind.SENT_AGAIN: (ABOUT, BACK, BACK),
    Kind.ENDS: ({"reason": "enough"}, "after round 3: enough", "after round 3: enough"),
    Kind.ROUND: ({"metrics": {"sr": 0.5}, "seconds": 1.0}, "round 3/4  sr 0.5  (1.0 s)", "sr 0.5"),
    Kind.CLOSING: ({"metrics": {"sr": 0.5}, "seconds": 1.0}, "closing  sr 0.5  (1.0 s)", "sr 0.5"),
}


def shown(told: dict[str, Any], **console: Any) -> str:
    """What the display adds for an event of round 3, in the middle of an exchange."""
    out = io.StringIO()
    with RunDisplay(Console(file=out, width=100, **console)) as display:
        for before in EVENTS[:3]:
            display.show(before)
        out.truncate(out.seek(0))
        display.show(told)
        return out.getvalue() + str(display.line())


@pytest.mark.parametrize("prefix", ["", AFTER_THE_ROUNDS])
@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_event_is_shown(
    kind: Kind, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a log, on a terminal and in `flwr log`; a kind that is new here needs a line in the table, and a display."""
    fields, logged, live = SHOWN[kind]
    told = event(3, kind, "" if kind in (Kind.ROUND, Kind.CLOSING) else prefix) | fields
    assert shown(told).startswith(logged)
    assert live in shown(told, force_terminal=True)
    in_log(told)
    assert bool(capsys.readouterr().out) == bool(logged)


def test_what_another_version_tells_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"round": 3, "kind": "moved\x1b[2J"}
    line = "round 3: moved (of another version of fedsuite, not known to this one)"
    assert shown(told).startswith(line + "\n")
    in_log(told)
    assert capsys.readouterr().out.split(" ", 1)[1] == line + "\n"


def test_a_notebook_gets_the_line_about_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_jupyter=True)
    said: list[str] = []
    monkeypatch.setattr(console, "print", lambda line, **_: said.append(line))
    display = RunDisplay(console)
    assert isinstance(display.live, NotebookLine)
    for kind in Kind:
        display.show(event(3, kind) | SHOWN[kind][0])
    assert said == [LOST, BACK, "after round 3: enough"]
