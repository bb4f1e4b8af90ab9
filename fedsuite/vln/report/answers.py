"""What `fedsuite report` says of a FedVLN run: scores, houses, what leaves a house, and the paper's table of its stage."""

from collections.abc import Iterator, Sequence

import pandas as pd

from fedsuite.privacy.guarantee import guarantee_text
from fedsuite.reports.outcomes import Column, column_of, read_baselines
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
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.metrics import Metric
from fedsuite.storage.files import read_table
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.message_keys import VALIDATION
from fedsuite.vln.metrics import SPEAKER_STAGE, metrics_of
from fedsuite.vln.report.outcome import (
    PRE_EXPLORE,
    PRIVACY,
    SPLIT_NAMES,
    TEXTS,
    WORK,
    FedVLNOutcome,
    headline,
    outcome_of,
    selection_text,
)
from fedsuite.vln.report.scored_on import GENERATED, scored_on, source_of
from fedsuite.vln.stages import SHARES, exchange_of, has_own

PICTURES = {"walks.png": "Walks in an unseen house, from above"}
PAPER = read_table(__file__, "paper.json")
# Widths of the published view features: ResNet-152; CLIP ViT-B/32 and RN101, RN50x4, RN50.
PUBLISHED_WIDTHS = {2048: "ResNet-152", 512: "CLIP", 640: "CLIP", 1024: "CLIP"}
PUBLISHED_HOUSES = {"r2r": 61, "rxr": 60}
# Optimizer steps of all clients together, by the scripts of the official release.
PUBLISHED_STEPS = {"train": 80_000, "augment": 65_000, "speaker": 80_000, "pre-explore": 200_000}


def answers(config: FedVLNConfig, run: RunRead) -> Answers:
    """Of one run, completed or not."""
    outcome = None
    if run.completed:
        outcome = outcome_of(config, run.folder, "", run.label, run.frames)
    before = {"before training": outcome.before} if outcome and outcome.before else {}
    private = guarantee_text(config, run.folder, run.frames.rounds).strip().splitlines()
    metric = headline(config)
    shown = metrics_of(config).shown("report")
    return Answers(
        outcomes=(outcome,) if outcome else (),
        columns=[*(c for s in reversed(VALIDATION) for c in _columns(s, shown)), *WORK],
        lower=metric.lower,
        baselines={**before, **read_baselines(run.folder)},
        curves=[
            curve_of(metric, name := f"{s}.{metric.name}", f"{metric.curve}, {SPLIT_NAMES[s]}{metric.percent}", name)
            for s in reversed(VALIDATION)
        ],
        scores=_houses(outcome, run.frames.clients, run.frames.closing_clients) if outcome else None,
        leaves=tuple(_leaves(config, run, outcome)),
        papers=tuple(_papers(config, run, outcome)) if outcome else (),
        notes=(*_notes(outcome), *private) if outcome else (),
        data=scored_on(config, run.roster),
        pictures=PICTURES,
        model=Model(**TEXTS["models"]["speaker" if config.stage == SPEAKER_STAGE else "agent"]),
        words=dict(_words(outcome)) if outcome else {},
        chance="No chance level: baselines.json, with the scores of a random walk, is written where a run's data are.",
    )  # fmt: skip


def _words(outcome: FedVLNOutcome) -> Iterator[tuple[str, Wording]]:
    """How the first scores of every stage are told."""
    for split in VALIDATION:
        count = int(outcome.metrics.get(f"{split}.count", 0))
        where, names = TEXTS["where"][split], TEXTS["baselines"]
        for metric, text in TEXTS["told"].items():
            share = metric == "sr"
            yield f"{split}.{metric}", Wording(where, **text, count=count, share=share, names=names)


def _columns(split: str, rows: Sequence[Metric]) -> list[Column]:
    return [
        column_of(m, f"{split}.{m.name}", f"{m.heading} {SPLIT_NAMES[split]}{m.percent}")
        for m in rows
    ]


def _notes(outcome: FedVLNOutcome) -> tuple[str, ...]:
    how = selection_text(outcome.config.evaluation.selection, [outcome.selected])
    sampled = sampled_text(outcome.frames, outcome.config.evaluation.selection != "last")
    return (f"Scores are those of the {how}.", *filter(None, [sampled]))


def _houses(
    outcome: FedVLNOutcome, clients: pd.DataFrame, closing: pd.DataFrame
) -> ClientScores | None:
    """The headline score that every house gave the result, in unseen houses if there are any."""
    metric = headline(outcome.config)
    both = pd.concat([clients, closing])
    for split in reversed(VALIDATION):
        name = f"{split}.{metric.name}"
        if name not in both:
            continue
        used = (both["task"] == "evaluate") & (both["round"] == outcome.selected)
        own = both[used & both[name].notna()].drop_duplicates("name", keep="last")
        if len(own) > 1:
            values = {str(k): metric.scale * float(v) for k, v in zip(own["name"], own[name], strict=True)}  # fmt: skip
            label = f"{metric.curve}, {SPLIT_NAMES[split]}{metric.percent}"
            counts = (
                dict(zip(own["name"].astype(str), own[f"{split}.count"], strict=True))
                if f"{split}.count" in own
                else {}
            )
            return ClientScores(label, values, counts=counts)
    return None


def _leaves(config: FedVLNConfig, run: RunRead, outcome: FedVLNOutcome | None) -> Iterator[str]:
    own, model = config.federation, RunFolder(run.folder).model
    what = "speaker" if config.stage == SPEAKER_STAGE else "agent"
    alone = own.method == "local-only" and config.stage == PRE_EXPLORE
    if own.method == "centralised":
        yield "The data of all houses are with one client: instructions, views and floor plans have left their houses."
    elif alone:
        yield "No weights leave a house: every house trains for itself."
    elif own.method == "local-only":
        yield (
            f"Every house trains for itself and nothing is merged. So that they can be compared, {what}s go to the server "
            "after every visit, and in the end to the houses that score them."
        )
    else:
        share = exchange_of(config).share
        named = {
            SHARES["agent"]: what,
            SHARES["language-encoder"]: f"language encoder of its {what}",
        }
        shown = named.get(share, f"shared part of its {what} ({own.share})")
        beside = {
            "its control variates": own.control_variates,
            "the state of its optimizer": own.client_optimizer == "shared",
        }
        with_it = "".join(
            f", and as much again for {name}" for name, sent in beside.items() if sent
        )
        sends = f"A house sends, after each visit, the {shown}{with_it}"
        yield shared_line(model, sends, share) + "."
        yield from hidden_lines(own)
    if own.method != "centralised":
        yield "Instructions, views and floor plans stay in their house."
    if outcome and config.stage == PRE_EXPLORE and outcome.metrics["privacy"] >= 0:
        level = int(outcome.metrics["privacy"])
        yield f"Level of disclosure (Table 6 of the paper): {level}, {TEXTS['privacy'][level]}."
    yield "Numbers of instructions and scores leave a house with every evaluation."
    if private := guarantee_text(config, run.folder, run.frames.rounds).strip():
        yield private
    elif own.method != "centralised" and not alone:
        yield "No noise is added to what is sent: no differential-privacy guarantee can be stated."
    if has_own(config):
        yield f"Every house is scored with {'a' if what == 'speaker' else 'an'} {what} of its own, which it keeps."


def _papers(config: FedVLNConfig, run: RunRead, outcome: FedVLNOutcome) -> Iterator[Paper]:
    """The table of the stage: agents with generated instructions have rows of their own."""
    if config.data.dataset not in PUBLISHED_HOUSES:
        return  # the paper has none on it
    key = config.data.dataset if config.stage in ("train", "augment") else config.stage
    found = PAPER[key]
    augmented = config.stage == "augment"
    if key == "r2r":
        kept = {k: v for k, v in found["rows"].items() if k.endswith("_aug") == augmented}
    elif augmented:
        return  # the paper has none on Room-across-Room
    else:
        kept = found["rows"]
    names = {n for row in kept.values() for n in row}
    splits = [s for s in reversed(VALIDATION) if any(n.startswith(f"{s}.") for n in names)]
    shown = [row for row in metrics_of(config).rows if row.paper]
    columns = [c for s in splits for c in _columns(s, shown)]
    columns += [PRIVACY] if config.stage == PRE_EXPLORE else []
    titles = {column.metric: column.title for column in columns} | {"privacy.level": PRIVACY.title}
    yield Paper(
        source=PAPER["source"],
        table=found["table"],
        columns=columns,
        rows={k: {titles[n]: text for n, text in row.items()} for k, row in kept.items()},
        data=tuple(_data(config, run)),
        size=tuple(_size(config)),
        budget=tuple(_budget(config, outcome)),
        note=PAPER["note"] + (f" {TEXTS['bleu_note'].strip()}" if config.stage == SPEAKER_STAGE else ""),
    )  # fmt: skip


def _data(config: FedVLNConfig, run: RunRead) -> Iterator[str]:
    roster = run.roster
    if (source := source_of(config, roster)) == GENERATED:
        yield source
        return
    if not config.data.dir:
        yield f"{source}, which the server has not seen"
    width = roster.facts.get("feature-size") if roster else None
    if width not in PUBLISHED_WIDTHS:
        yield f"views of {width or 'unknown'} numbers (published: 2048 of ResNet-152, 512 of CLIP)"
    seen = sum(len(m.details.get("houses", [])) for m in roster.members if m.role == "seen") if roster else 0  # fmt: skip
    wanted = PUBLISHED_HOUSES[config.data.dataset]
    if config.stage != PRE_EXPLORE and 0 < seen < wanted:
        yield f"{seen} training houses (published: {wanted})"
    if config.data.dataset == "rxr" and config.data.language != "en":
        yield f"language {config.data.language} (published: en)"
    if config.ablations.blind_to != "nothing" or config.ablations.shuffle_instructions:
        yield "an ablation"


def _size(config: FedVLNConfig) -> Iterator[str]:
    if config.agent.hidden_size != 512:
        yield f"hidden size {config.agent.hidden_size} (published: 512)"
    if config.agent.max_actions != 35:
        yield f"at most {config.agent.max_actions} actions (published: 35)"


def _budget(config: FedVLNConfig, outcome: FedVLNOutcome) -> Iterator[str]:
    steps, published = outcome.metrics["local-steps"], PUBLISHED_STEPS[config.stage]
    if steps < 0.9 * published:
        yield f"{steps:,.0f} local steps (published: about {published:,} or more)"
    if config.evaluation.selection != "best-val-unseen":
        yield "another choice of the round (published: best on val-unseen)"
    if config.stage != SPEAKER_STAGE and config.evaluation.trajectory != "published":
        yield "nDTW without an entry per camera turn"
