"""Whose updates a run's merges did not take as they were: one line a client."""

import pandas as pd

from fedsuite.history import RunFrames
from fedsuite.reports.tables import markdown_table


def admitted_text(frames: RunFrames) -> str:
    """A table of `admitted_rows`; "" if there are none."""
    lines = admitted_rows(frames.clients)
    if not lines:
        return ""
    return f"\nWhose updates were rejected or shortened:\n\n{markdown_table(lines)}"


def admitted_rows(clients: pd.DataFrame) -> list[dict[str, str]]:
    """A line per client that had less than its say in some round, most often rejected first."""
    if "admitted" not in clients:
        return []
    trained = clients[(clients["task"] == "train") & (clients["status"] == "ok")]
    rows = []
    for name, own in trained.groupby("name"):
        say = own["admitted"].fillna(1.0)
        if (say < 1).any():
            rows.append((int((say == 0).sum()), str(name), own, say))
    return [
        _line(name, own, say) for _, name, own, say in sorted(rows, key=lambda r: (-r[0], r[1]))
    ]


def _line(name: str, own: pd.DataFrame, say: "pd.Series[float]") -> dict[str, str]:
    return {
        "client": name,
        "updates": str(len(own)),
        "rejected": str(int((say == 0).sum())),
        "shortened": str(int(((say > 0) & (say < 1)).sum())),
        "mean say": f"{say.mean():.3f}",
    }
