"""What `fedsuite report` says of a FedRL run: tests, what left the parties, what noise guarantees, the paper's tables."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.metrics import metrics_of
from fedsuite.fedrl.report.run import (
    CHANCE,
    NOTES,
    FedRLOutcome,
    outcomes_of,
)
from fedsuite.fedrl.report.scored_on import scored_on
from fedsuite.reports.outcomes import Column, column_of
from fedsuite.reports.page.questions import Answers, Model, Paper, RunRead, Wording, curve_of
from fedsuite.roster.members import Roster
from fedsuite.storage.files import read_table

PAPER = read_table(__file__, "paper.json")
WORK = (
    Column("best round", "best-round", 0, with_spread=False),
    Column("gradient steps", "gradient-steps", 0, with_spread=False),
)
MODEL = Model(
    "Q-networks of the parties, each of which sees its own half of the world, and the network that they share.",
    "reinforcement-learning",
    "from fedsuite.fedrl.player import Player\n\nplayer = Player.of_run({run})\nepisode = player.episode(0)",
    (
        "Only in a simulation does the run's folder hold all parties' networks; real parties keep theirs.",
    ),
)
_FOLD = re.compile(r"[-._]fold-?\d+$")


def answers(config: FedRLConfig, run: RunRead) -> Answers:
    """Of one run, completed or not. Folds of a variant are one line."""
    metrics, kind = metrics_of(config), config.world.kind
    tests = outcomes_of(config, run.folder, run.label, run.frames) if run.completed else []
    return Answers(
        outcomes=tests,
        columns=(*map(column_of, metrics.shown("report")), *WORK),
        lower=metrics.rows[0].lower,
        curves=[
            curve_of(row, f"valid.{row.name}", f"{row.curve} in validation{row.percent}") for row in metrics.curves
        ],
        leaves=tuple(_leaves(config, tests)),
        papers=tuple(_papers(config)) if tests else (),
        notes=(NOTES[kind], "Both parties act together: there is one score, none of a client alone."),
        line=_FOLD.sub("", run.line),
        data=scored_on(config, run.roster),
        learns=config.federation.trains,
        chance=CHANCE,
        words=_words(config, run.roster),
        model=MODEL,
    )  # fmt: skip


def _words(config: FedRLConfig, roster: Roster | None) -> dict[str, Wording]:
    """How the first score is told. Episodes of a test that plays some again, as there are fewer maps, give no interval."""
    played, known = (
        config.evaluation.episodes,
        int(roster.facts.get("test-episodes", 0)) if roster else 0,
    )
    met = Wording(
        "In the test", "the agents", "met in {score} % of {of}", "in {score} %", "episodes",
        count=played if played <= known else 0, share=True, names={"random": "random moves", "oracle": "shortest paths"},
    )  # fmt: skip
    read = replace(
        met, first="found actions in texts with an F1 of {score} %", then="{score} %", count=0
    )
    return {"success-rate": met, "f1": read}


def _leaves(config: FedRLConfig, tests: Sequence[FedRLOutcome]) -> Iterator[str]:
    roles = config.federation.roles
    if not config.federation.trains:
        yield "Nothing is learnt and nothing is exchanged."
    elif len(roles) == 1:
        whole = config.federation.method.endswith("-full")
        yield (
            "One learner sees everything: what both parties see has left them."
            if whole
            else f"{roles[0]} learns alone: nothing is exchanged."
        )
    else:
        joint = config.published.rules.mlp_updates == "joint"
        handed = "the first party alone updates" if joint else "all parties update in turn"
        yield (
            "Between parties pass Q-values, joint actions, numbers of episodes and records, targets, and the shared MLP, "
            f"which {handed} (docs/fedrl.md)."
        )
        if config.federation.sealed:
            yield "They are sealed: whoever relays them sees how large they are, and the other party what is in them."
    if tests and tests[0].privacy is not None:
        counts = ", ".join(f"{role} {count:,}" for role, count in tests[0].released.items())
        yield f"Q-vectors released in training and evaluation: {counts}."
        yield from tests[0].privacy.text


def _papers(config: FedRLConfig) -> Iterator[Paper]:
    """Table 1 by the size of maps, table 2 by corpus."""
    world = config.world
    grid = world.kind == "gridworld"
    own = PAPER[world.kind]
    found = own.get(str(world.grid_size) if grid else config.data.text_source)
    if found is None:
        return
    columns = [column_of(row) for row in metrics_of(config).rows if row.paper]
    rows = {
        name: {c.title: row.get(f"test.{c.metric}", "-") for c in columns}
        for name, row in found["rows"].items()
    }
    yield Paper(
        source=PAPER["source"],
        table=found["table"],
        columns=columns,
        rows=rows,
        data=tuple(_grid_data(config) if grid else _text_data(config)),
        size=() if grid else ("word vectors of other texts",),
        budget=("gradient steps of our own, the paper states none",),
        note=own["note"],
    )


def _grid_data(config: FedRLConfig) -> Iterator[str]:
    rules = config.published.rules
    if not config.data.dir:
        yield "generated maps"
    if rules.distance == "manhattan":
        yield "agents meet by the Manhattan distance (published: along an anti-diagonal)"
    if rules.starts == "exact":
        yield "starts as stored (published: one cell off)"


def _text_data(config: FedRLConfig) -> Iterator[str]:
    if not config.data.dir:
        yield "generated texts"
    if config.world.task != "names":
        yield "arguments (published: action names)"
    if config.published.rules.selection == "test-fold":
        yield "scored on a fold of its own (published: the best in validation)"
