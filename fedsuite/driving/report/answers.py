"""What `fedsuite report` says of a CDL run: errors, silos, what leaves a silo, and the paper's tables 2 and 3."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fedsuite.arrays import Share
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.metrics import ERRORS, metrics_of
from fedsuite.driving.report.outcome import last_metrics, left_out_line, outcome_of, score_columns
from fedsuite.driving.report.scored_on import num_silos, scored_on, source_of
from fedsuite.privacy.guarantee import guarantee_text
from fedsuite.reports.outcomes import Column, Outcome, column_of, read_baselines
from fedsuite.reports.page.questions import (
    Answers,
    ClientScores,
    Model,
    Paper,
    RunRead,
    Wording,
    curve_of,
)
from fedsuite.reports.page.shared_arrays import hidden_lines, shared_line
from fedsuite.reports.sampled import sampled_text
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.metrics import Metric
from fedsuite.storage.files import read_table

PAPER = read_table(__file__, "paper.json")
SIZES = (
    Column("parameters", "parameters", 0, with_spread=False),
    Column("cycle ms", "cycle ms", 1, with_spread=False),
)
MIXINGS = Column("mixings", "mixings", 0, with_spread=False)
AXES = {
    "mixings": "mixing steps",
    "simulated-seconds": "simulated time of the overlay (s)",
    "overlay-bytes": "sent over the overlay (bytes)",
}
NOTE = (
    "Errors in radians, of the average model over all test frames. Silo: own models at home; everywhere: own models on "
    "all test frames."
)
MODEL = Model(
    "A network that steers: of one frame of a front camera it says the angle of the wheel, left positive.",
    "robotics",
    'from fedsuite.driving.steering import Pilot\n\npilot = Pilot.of_run({run})\nangles = pilot.steer(["frame.png"])',
    ("It is research, and not fit to steer a vehicle: nothing is known of it in closed loop.",),
)
PICTURES = {
    "steering.png": "Steering angles, by silo",
    "frames.png": "What the silos' cameras see",
    "overlay.png": "Who mixes with whom",
}
STEERING = {"constant": "always the mean angle", "random": "angles drawn at random"}
ROWS = "silos."  # arrays of the server's file that are the silos' own networks, not their average
PUBLISHED_SILOS = {"gaia": 11, "nws": 22, "exodus": 79}
PUBLISHED_MIXINGS, PUBLISHED_PIXELS, PUBLISHED_BATCH = 3600, 200, 32


def answers(config: CDLConfig, run: RunRead) -> Answers:
    """Of one run, completed or not."""
    outcome, metrics = None, metrics_of(config)
    if run.completed:
        outcome = outcome_of(config, run.folder, "", run.label, run.frames)
    return Answers(
        outcomes=(outcome,) if outcome else (),
        columns=(*score_columns(config, "report"), *SIZES, MIXINGS),
        lower=metrics.rows[0].lower,
        baselines=_baselines(run, metrics.computed),
        curves=[curve_of(row, level=row.heading) for row in metrics.curves],
        axes=AXES,
        scores=_silos(run) if outcome else None,
        leaves=tuple(_leaves(config, run)),
        papers=tuple(_papers(config, run.roster, outcome)) if outcome else (),
        notes=(NOTE, *filter(None, _notes(config, run))),
        data=scored_on(config, run.roster),
        words=_words(run),
        model=MODEL,
        pictures=PICTURES,
        chance="No chance level: baselines.json, with the errors of the mean angle, is written where a run's data are.",
    )


def _words(run: RunRead) -> dict[str, Wording]:
    """How the first score is told: of the average model or, where there is none, of the silos' own."""
    unit = str(run.roster.facts.get("unit", "radians")) if run.roster else "radians"
    first, then = f"was off by {{score}} {unit} (RMSE)", f"by {{score}} {unit}"
    average = Wording(
        "On the test frames of all silos", "the average model", first, then, names=STEERING
    )
    own = replace(average, where="On the test frames of its silo", who="a silo's own model")
    return {"RMSE": average, "silo RMSE": own}


def _notes(config: CDLConfig, run: RunRead) -> tuple[str, ...]:
    """What is to be known of the run's data, of its evaluations and of its privacy; "" where there is nothing to say."""
    private = guarantee_text(config, run.folder, run.frames.rounds).strip()
    return left_out_line(run.folder), sampled_text(run.frames), private


def _baselines(run: RunRead, rows: Sequence[Metric]) -> dict[str, Mapping[str, float]]:
    """Of the mean training angle, and of angles drawn at random."""
    found = read_baselines(run.folder)
    return {
        name: {m.heading: found[name][m.name] for m in rows if m.name in found[name]}
        for name in ("constant", "random")
        if name in found
    }


def _silos(run: RunRead) -> ClientScores:
    """RMSE of every silo's own model on its own test frames."""
    metrics = last_metrics(run.frames)
    members = run.roster.members if run.roster else ()
    names = {
        number: name
        for member in members
        for number, name in zip(member.listed("silos", int), member.names("names"), strict=True)
    }
    values, score = {}, ERRORS[0]
    for key, value in metrics.items():
        head, _, rest = key.partition(".")
        number, _, kind = rest.partition(".")
        if head == "silo" and kind == score.name and number.isdigit():
            values[names.get(int(number), f"silo {number}")] = value
    label = f"{score.heading} of own models at home"
    return ClientScores(label, values, lower=True, digits=score.digits, unit="silo")


def _leaves(config: CDLConfig, run: RunRead) -> Iterator[str]:
    own = config.federation
    if own.pooled:
        yield "The frames of all silos are with one client: they have left their silos."
        return
    tracks = "its optimizer" if config.training.optimizer == "gradient-tracking" else ""
    beside = tracks or ("its control variates" if own.control_variates else "")
    network = (
        "its network" if own.share == "all" else f"the shared part of its network ({own.share})"
    )
    sent = f"{network}, and as much again for {beside}," if beside else network
    if own.scenario == "local":
        yield (
            "No weights are mixed: every silo trains for itself. So that their average can be scored, networks go to the "
            "server after every round."
        )
    elif own.sealed:
        yield (
            "A silo sends, at each mixing step, its network to its neighbours, sealed: whoever relays it sees how large "
            "it is, and each neighbour sees the network."
        )
    else:
        model = RunFolder(run.folder).model
        yield shared_line(model, f"A silo sends, at each mixing step, {sent}", Share(), ROWS) + "."
        yield from hidden_lines(own)
    if config.objective.contrastive:
        yield "The sub-network of the contrastive loss stays in its silo."
    if own.silos_per_client > 1:
        yield f"{own.silos_per_client} silos share a client: what they mix among themselves is not in its bytes."
    if run.completed and (overlay := last_metrics(run.frames).get("overlay-bytes")):
        yield f"Between silos, over the overlay, {overlay / 1e6:,.1f} MB would be sent."
    yield "Frames and angles stay in their silo; scores and numbers of frames leave it."
    private = guarantee_text(config, run.folder, run.frames.rounds).strip()
    yield (
        private
        or "No noise is added to what is sent: no differential-privacy guarantee can be stated."
    )


def _papers(config: CDLConfig, roster: Roster | None, outcome: Outcome) -> Iterator[Paper]:
    """Table 2 (Gaia) or 3, of the data set whose character the roads have; drives are beside Udacity+."""
    underlay = config.federation.underlay
    if underlay not in PAPER or config.federation.underlay_file:
        return
    character = "udacity" if config.data.dir else config.data.road_character
    found = PAPER[underlay]
    scores = [row for row in metrics_of(config).rows if row.paper]
    keys = {row.heading: f"{character}.{row.name}" for row in scores}
    keys |= {"parameters": "any.parameters", "cycle ms": "any.cycle"}
    columns = [
        column
        for column in (*(column_of(row, row.heading) for row in scores), *SIZES)
        if any(keys[column.title] in row for row in found["rows"].values())
    ]
    rows = {
        name: {c.title: row.get(keys[c.title], "-") for c in columns}
        for name, row in found["rows"].items()
    }
    yield Paper(
        source=PAPER["source"],
        table=f"{found['table']}, {PAPER['names'][character]}",
        columns=columns,
        rows=rows,
        data=tuple(_data(config, roster)),
        size=tuple(_size(config, character)),
        budget=tuple(_budget(config, outcome)),
        note=PAPER["note"],
    )


def _data(config: CDLConfig, roster: Roster | None) -> Iterator[str]:
    silos, published = num_silos(config, roster), PUBLISHED_SILOS[config.federation.underlay]
    if silos and silos != published:
        yield f"{silos} silos (published: {published})"
    yield source_of(config, roster)


def _size(config: CDLConfig, character: str) -> Iterator[str]:
    if config.data.image_size != PUBLISHED_PIXELS:
        yield f"{config.data.image_size} pixels (published: {PUBLISHED_PIXELS})"
    published = PAPER["per-silo"][f"{character}.{config.federation.underlay}"]
    if not config.data.dir:
        ours = config.data.train_frames + config.data.test_frames
        yield f"{ours:,} frames a silo (published: {published:,})"


def _budget(config: CDLConfig, outcome: Outcome) -> Iterator[str]:
    mixings = outcome.metrics["mixings"]
    if mixings < PUBLISHED_MIXINGS:
        yield f"{mixings:,.0f} mixing steps (published: {PUBLISHED_MIXINGS:,})"
    if config.training.batch_size != PUBLISHED_BATCH:
        yield f"batches of {config.training.batch_size} (published: {PUBLISHED_BATCH})"
