"""Whose updates merges rejected or shortened, counted by hand."""

import pandas as pd

from fedsuite.reports.admitted import admitted_rows


def line(name: str, admitted: float | None, **more: str) -> dict[str, object]:
    return {"name": name, "task": "train", "status": "ok", "admitted": admitted} | more


def test_who_was_rejected_most_often_comes_first() -> None:
    clients = pd.DataFrame(
        [
            line("fair", None), line("fair", 1.0),
            line("cut", 0.5), line("cut", 0.25), line("cut", 1.0), line("cut", 0.0),
            line("out", 0.0), line("out", 0.0), line("out", None), line("out", None),
            line("out", 0.0, task="evaluate"), line("out", 0.0, status="lost"),
        ]
    )  # fmt: skip
    keys = ("client", "updates", "rejected", "shortened", "mean say")
    assert [tuple(row[k] for k in keys) for row in admitted_rows(clients)] == [
        ("out", "4", "2", "0", "0.500"),
        ("cut", "4", "1", "2", "0.438"),
    ]
    assert admitted_rows(clients.drop(columns="admitted")) == []
