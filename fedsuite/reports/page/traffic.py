"""What left the clients: how much, for which task, and what kind of thing."""

from collections.abc import Sequence

import pandas as pd

from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Section, table_of
from fedsuite.reports.page.results import lines_of

MB = 1e6


def traffic_section(digests: Sequence[Digest]) -> Section:
    """Bytes by task, the clients that sent most, and what the system says of it."""
    tasks, clients = [], []
    for name, own in lines_of(digests).items():
        moved = pd.concat([d.moved for d in own]).groupby("task", sort=False).sum() / len(own)
        for task, row in moved.iterrows():
            tasks.append(
                {
                    "line": name,
                    "task": str(task),
                    "messages": f"{row['messages']:,.4g}",
                    "sent by clients (MB)": f"{row['up'] / MB:,.3f}",
                    "received (MB)": f"{row['down'] / MB:,.3f}",
                }
            )
        sent = pd.concat([d.members.set_index("name")["up"] for d in own], axis=1).mean(axis=1) / MB
        if len(sent):
            clients.append(
                {
                    "line": name,
                    "clients": str(len(sent)),
                    "median (MB)": f"{sent.median():,.3f}",
                    "most (MB)": f"{sent.max():,.3f}",
                    "sent by": str(sent.idxmax()),
                }
            )
    note = "Arrays alone, before any compression or protocol; means over the runs of a line."
    tables = [table_of("By task", tasks, note), table_of("By client, in all rounds", clients)]
    return Section(
        "What left the clients",
        items=tuple(_leaves(digests)),
        tables=tuple(t for t in tables if t.rows),
    )


def _leaves(digests: Sequence[Digest]) -> list[str]:
    """What the system says, with the lines that it is said of where it is not all of them; one run speaks for its line."""
    said: dict[str, list[str]] = {}
    lines, others = lines_of(digests), []
    for name, own in lines.items():
        speaker = next((d for d in own if d.completed), own[0])
        for text in speaker.answers.leaves:
            said.setdefault(text, []).append(name)
        if any(d.completed and d.answers.leaves != speaker.answers.leaves for d in own):
            others.append(speaker.place.label)
    found = [
        text if len(n) == len(lines) else f"{', '.join(n)}: {text}" for text, n in said.items()
    ]
    if others:
        found.append(
            f"Numbers are those of {', '.join(others)}; other runs of the same line have others."
        )
    return found
