"""A run's standing as something to look at: a screen for terminals, a line for logs."""

import itertools
from collections.abc import Sequence

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from simulations.experiments.progress import short_metrics
from simulations.results.watching.state import Client, Round, Standing

BLOCKS = "▁▂▃▄▅▆▇█"
CURVE, BAR = 30, 30
MOST_CLIENTS, MOST_FAILURES, MOST_TOLD = 24, 5, 5
SIGNS = {"ok": ("✓", "green"), "error": ("✗", "red"), "lost": ("?", "red")}
URGENCY = {"error": 0, "lost": 1, "working": 2, "ok": 3}  # the last ones go where room is short
STYLES = {"completed": "green", "failed": "red", "stopped": "yellow"}
LONG_QUIET_S = 60.0


def screen(now: Standing, quiet_s: float) -> RenderableType:
    """Everything, for a terminal. quiet_s: since something was written."""
    parts: list[RenderableType] = [_head(now, quiet_s), _progress(now, quiet_s)]
    if now.error:
        parts.append(Text(now.error, "red"))
    if now.curves:
        parts += [Text(), _curves(now)]
    elif now.metrics:
        parts.append(Text(short_metrics(now.metrics)))
    if now.doing:
        parts += [Text(), _present(now)]
    parts += [Text(line, "yellow") for line in now.told[-MOST_TOLD:]]
    if now.failures:
        parts += [Text(), _failures(now)]
    return Group(*parts)


def line(over: Round, planned: int) -> str:
    """One line for a log about a round that is over."""
    took = f"({over.seconds:.1f} s)" if over.seconds is not None else ""
    parts = [f"round {over.number}/{planned}", short_metrics(over.metrics) or "done", took]
    return "  ".join(filter(None, parts))


def status_text(now: Standing, quiet_s: float) -> str:
    """How the run stands; of a running one also whether anybody is known to be at work."""
    if now.has_ended:
        return now.status
    quiet = f"nothing new for {clock(quiet_s)}" if quiet_s >= LONG_QUIET_S else ""
    where = "" if now.held else "but by no process of this machine"
    return ", ".join(filter(None, [now.status, where, quiet]))


def curve(values: Sequence[float], width: int = CURVE) -> str:
    """Values as blocks from the least to the largest; of more than `width` each block is a mean of neighbours."""
    count = min(width, len(values))
    edges = [i * len(values) // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    if high == low:
        return BLOCKS[0] * count
    steps = [(value - low) / (high - low) * (len(BLOCKS) - 1) for value in means]
    return "".join(BLOCKS[round(step)] for step in steps)


def clock(seconds: float) -> str:
    """1:05 min, or 1:02:05 h."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def _head(now: Standing, quiet_s: float) -> Text:
    status = status_text(now, quiet_s)
    return Text.assemble(
        (now.name, "bold"), f"  {now.system}  ", (status, STYLES.get(now.status, ""))
    )


def _progress(now: Standing, quiet_s: float) -> Text:
    filled = BAR * now.done // now.planned if now.planned else 0
    goes_on = now.held or (not now.has_ended and quiet_s < LONG_QUIET_S)
    left = f"about {clock(now.left_s)} left" if now.left_s and goes_on else ""
    took = f"{now.took_s:.1f} s a round" if now.took_s is not None else "starting"
    parts = [f"round {now.done}/{now.planned}", "━" * filled + "╌" * (BAR - filled), took, left]
    return Text("  ".join(filter(None, parts)))


def _curves(now: Standing) -> Table:
    table = Table("metric", "last", "by round", "least", "most", box=None, pad_edge=False)
    for name, values in now.curves.items():
        ends = (f"{v:.4g}" for v in (min(values), max(values)))
        table.add_row(Text(name), f"{values[-1]:.4g}", curve(values), *ends)
    return table


def _present(now: Standing) -> RenderableType:
    answered = sum(client.status in ("ok", "error") for client in now.clients)
    count = f": {answered} of {now.asked} clients have answered" if now.asked else ""
    urgent = sorted(now.clients, key=lambda client: URGENCY.get(client.status, 0))
    shown: list[RenderableType] = [_client(client) for client in urgent[:MOST_CLIENTS]]
    if len(urgent) > MOST_CLIENTS:
        shown.append(Text(f"and {len(urgent) - MOST_CLIENTS} more"))
    return Group(Text(f"{now.doing}{count}"), Columns(shown))


def _client(client: Client) -> Text:
    sign, style = SIGNS.get(client.status, ("…", ""))
    return Text(f"{sign} {client.name}", style)


def _failures(now: Standing) -> Group:
    last = now.failures[-MOST_FAILURES:]
    more = f", the last {len(last)}" if len(now.failures) > len(last) else ""
    lines = [Text(f"round {f.round}  {f.client}: {f.reason}", "red") for f in last]
    return Group(Text(f"failures: {len(now.failures)}{more}"), *lines)
