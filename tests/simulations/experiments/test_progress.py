import io

from rich.console import Console

from simulations.experiments.progress import Preparing, RunDisplay, short_metrics

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
    for event in EVENTS:
        display.show(event)
    assert "round 0/4" in str(display.line()) and "train 2/3 clients" in str(display.line())
    display.show({"round": 1, "kind": "round", "seconds": 2.0, "metrics": {"loss": 0.123456}})
    line = str(display.line())
    assert "round 1/4" in line and "loss 0.1235" in line and "min left" in line


def test_one_line_a_round_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with RunDisplay(Console(file=out, width=40)) as display:
        for event in EVENTS:
            display.show(event)
        metrics = {f"a-long-name-{i}": 1.0 for i in range(9)}
        display.show({"round": 1, "kind": "round", "seconds": 2.04, "metrics": metrics})
        display.show({"round": 4, "kind": "closing-exchange", "task": "evaluate", "clients": 3})
        display.show({"round": 4, "kind": "closing", "seconds": 0.0, "metrics": {"sr": 0.5}})
    lines = out.getvalue().splitlines()
    assert lines == [f"round 1/4  {short_metrics(metrics)}  (2.0 s)", "closing  sr 0.5  (0.0 s)"]


def test_a_terminal_gets_a_live_line_that_leaves_nothing() -> None:
    out = io.StringIO()
    with RunDisplay(Console(file=out, force_terminal=True, width=100)) as display:
        for event in EVENTS:
            display.show(event)
    assert "train 2/3 clients" in out.getvalue()


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
