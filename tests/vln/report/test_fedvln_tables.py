"""Tables of finished FedVLN runs of every stage, from histories written here: numbers, chosen rounds, disclosure."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fedsuite.errors import InputError
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.metrics import AGENT_METRICS, SPEAKER_METRICS
from fedsuite.vln.report.experiment import write_comparison
from fedsuite.vln.report.outcome import outcome_of
from fedsuite.vln.report.run import pre_exploration_text, write_results
from fedsuite.vln.report.speaker import read_spoken, texts_of
from tests.harness import changed

AGENT = (*(m.name for m in AGENT_METRICS.shown("run")), "count")
BLEU = (*(m.name for m in SPEAKER_METRICS.shown("run")), "count")


def config_of(**keys: Any) -> FedVLNConfig:
    return changed(FedVLNConfig(), **keys)


def scores(names: Sequence[str], split: str, value: float) -> dict[str, float]:
    """Metric number i is value + i / 100; "sr" and "bleu-2" stand at their places."""
    return {f"{split}.{name}": round(value + i / 100, 6) for i, name in enumerate(names)}


def row(number: int, kind: str = "round", **metrics: float) -> dict[str, Any]:
    return {"round": number, "kind": kind, "metrics": metrics}


def client(number: int, name: str, task: str, up: int, **metrics: float) -> dict[str, Any]:
    return row(number, "client", **metrics) | {
        "partition": 0, "name": name, "task": task, "status": "ok", "bytes-up": up, "bytes-down": 0,
    }  # fmt: skip


def write_run(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir(parents=True)
    (folder / "history.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def agent_rows(seen: Sequence[float], unseen: Sequence[float]) -> list[dict[str, Any]]:
    """One evaluated round per value, and a round without an evaluation behind each."""
    rows = []
    for i, (a, b) in enumerate(zip(seen, unseen, strict=True)):
        steps = {"local-steps": 100.0 * i, "serial-depth": 40.0 * i} if i else {}
        rows.append(
            row(2 * i, **scores(AGENT, "val_seen", a), **scores(AGENT, "val_unseen", b), **steps)
        )
        rows.append(row(2 * i + 1, **{"local-steps": 100.0 * i + 50}))
    return rows


def cells(text: str, start: str) -> list[str]:
    """Cells of the first table line whose first cell is `start`."""
    (found,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")][:1]
    return [c.strip() for c in found.strip("|").split("|")]


def results_of(config: FedVLNConfig, run: Path) -> str:
    write_results(config, run)
    return (run / "results.md").read_text()


def test_the_last_round_is_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", agent_rows([0.1, 0.4, 0.3], [0.2, 0.35, 0.3]))
    text = results_of(config_of(), run)
    assert cells(text, "val_seen, untrained")[4] == "13.00"
    assert cells(text, "val_seen, federated")[1:5] == ["0.30", "31.00", "32.00", "33.00"]
    assert "last round (round 4); 200 local steps" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "number", "words"),
    [
        ("best-val-seen", 2, "best on val-seen (round 2); 100 local steps"),
        (
            "best-val-unseen",
            4,
            "best on val-unseen (round 4; the published protocol: chosen on what is reported)",
        ),
    ],
)
def test_the_selected_round_is_shown(
    tmp_path: Path, selection: str, number: int, words: str
) -> None:
    rows = agent_rows([0.1, 0.4, 0.3, 0.2], [0.2, 0.35, 0.5, 0.1])
    run = write_run(
        tmp_path / "run", [*rows, row(7, "closing", **{"selected-round": float(number)})]
    )
    text = results_of(config_of(selection=selection, start_from="x"), run)
    expected = {2: 0.4, 4: 0.3}[number]
    assert cells(text, "val_seen, federated")[1] == f"{expected:.2f}"
    assert words in text and "| val_seen, before |" in text


def test_a_selected_round_that_is_not_there_is_refused(tmp_path: Path) -> None:
    rows = agent_rows([0.1, 0.4], [0.2, 0.3])
    config = config_of(selection="best-val-seen")
    with pytest.raises(InputError, match="selected-round, got None"):
        outcome_of(config, write_run(tmp_path / "a", rows))
    late = row(3, "closing", **{"selected-round": 9.0})
    with pytest.raises(InputError, match=r"selected-round, got 9"):
        outcome_of(config, write_run(tmp_path / "b", [*rows, late]))
    with pytest.raises(InputError, match="no round was evaluated"):
        outcome_of(config, write_run(tmp_path / "c", [row(1, **{"local-steps": 1.0})]))


def test_scores_of_the_end_alone_are_shown(tmp_path: Path) -> None:
    """Houses that train for themselves are scored once, after the last round."""
    rows = [
        row(0),
        row(1, **{"local-steps": 7.0}),
        row(1, "closing", **scores(AGENT, "val_unseen", 0.5)),
    ]
    outcome = outcome_of(config_of(method="local-only"), write_run(tmp_path / "run", rows))
    assert outcome.before == {} and outcome.metrics["val_unseen.sr"] == 0.53
    assert (outcome.selected, outcome.metrics["local-steps"]) == (1, 7)


def pre_explore_rows(
    modules: float, houses: float, before: float, after: float
) -> list[dict[str, Any]]:
    left = {"modules-sent": modules, "houses-per-client": houses, "local-steps": 30.0}
    rows = [client(0, "x", "train", 9_000_000)]
    for number, value in ((0, before), (1, after)):
        for name, share in (("oak", 0.0), ("elm", 0.2)):
            own = scores(AGENT, "val_unseen", value + share) | {"val_unseen.count": 6.0}
            rows.append(client(number, name, "evaluate", 0, **own))
        rows.append(client(1, "oak", "train", 2_000_000 + 1_000_000 * number))
        metrics = scores(AGENT, "val_unseen", value) | (left if number else {})
        rows.append(row(number, **metrics))
    return rows


def test_pre_exploration_says_what_left_the_houses(tmp_path: Path) -> None:
    config = config_of(stage="pre-explore", share="language-encoder")
    run = write_run(tmp_path / "run", pre_explore_rows(1, 1, 0.4, 0.6))
    text = pre_exploration_text(outcome_of(config, run))
    assert cells(text, "before")[4] == "43.00"
    assert cells(text, "federated, language-encoder shared")[4] == "63.00"
    assert cells(text, "1") == ["1", "1", "2.50", "2"]
    assert cells(text, "oak") == ["oak", "6", "43.00", "63.00"]
    assert cells(text, "elm") == ["elm", "6", "63.00", "83.00"]
    assert "untrained" not in text and "last round (round 1)" in text


@pytest.mark.slow
def test_pre_exploration_table_of_several(tmp_path: Path) -> None:
    shapes = {"pooled": (3.0, 11.0), "own": (0.0, 1.0), "full": (3.0, 1.0), "language": (1.0, 1.0)}
    runs = {}
    for i, (name, (modules, houses)) in enumerate(shapes.items()):
        for seed in (0, 1):
            label = f"{name}/seed-{seed}"
            write_run(
                tmp_path / label, pre_explore_rows(modules, houses, 0.4, 0.5 + i / 10 + seed / 50)
            )
            runs[label] = config_of(stage="pre-explore", seed=seed)
    write_comparison(tmp_path, runs)
    text = (tmp_path / "results.md").read_text()
    levels = {name: cells(text, name)[9] for name in shapes}
    assert levels == {"pooled": "0", "own": "3", "full": "1", "language": "2"}
    assert cells(text, "own")[5] == "64.00 ± 1.41" and cells(text, "own")[8] == "2.50 ± 0.00"
    assert cells(text, "before")[1] == "2" and cells(text, "before")[5].startswith("43.00")
    assert (tmp_path / "learning.png").stat().st_size > 1000
    with (tmp_path / "results.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert (
        len(lines) == 8
        and lines[2]["privacy"] == "3"
        and lines[2]["before.val_unseen.sr"] == "0.43"
    )


def spoken_file(
    run: Path, house: str, split: str, entries: Sequence[tuple[str, list[str]]]
) -> None:
    folder = run / "clients" / house
    folder.mkdir(parents=True, exist_ok=True)
    content = [
        {"path_id": i, "instruction": s, "references": r} for i, (s, r) in enumerate(entries)
    ]
    (folder / f"spoken_{split}.json").write_text(json.dumps(content))


def speaker_run(folder: Path, value: float) -> Path:
    rows = [
        row(
            i,
            **scores(BLEU, "val_seen", v),
            **scores(BLEU, "val_unseen", v - 5),
            **{"local-steps": 10.0 * i},
        )
        for i, v in enumerate((8.0, value))
    ]
    run = write_run(folder, rows)
    spoken_file(
        run, "oak", "val_seen", [("walk past the door . stop .", ["Walk on.", "Turn left. Wait."])]
    )
    spoken_file(run, "elm", "val_seen", [("turn left .", ["Go out.", "Exit the room."])])
    spoken_file(run, "ash", "val_unseen", [("walk walk", ["Walk to the | sofa."])])
    return run


def test_a_speaker_leaves_scores_statistics_and_examples(tmp_path: Path) -> None:
    run = speaker_run(tmp_path / "run", 30.0)
    write_results(config_of(stage="speaker"), run)
    text = (run / "results.md").read_text()
    assert cells(text, "val_seen, federated")[1:6] == ["30.00", "30.01", "30.02", "30.03", "30.04"]
    assert cells(text, "val_unseen, untrained")[2] == "3.01"
    # Human: 3, 5, 3 and 4 tokens; generated: 7 and 3.
    assert cells(text, "val-seen, human")[1:5] == ["4", "3.75", "0.69", "1.25"]
    assert cells(text, "val-seen, generated")[1:5] == ["2", "5.00", "4.00", "1.50"]
    assert "human: Walk to the \\| sofa." in text and "generated: walk walk" in text
    with (run / "statistics.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(r["split"], r["instructions"]) for r in lines] == [
        (s, i) for s in ("val_seen", "val_unseen") for i in ("human", "generated")
    ]
    assert float(lines[1]["length_variance"]) == 4
    for name in ("verbs.png", "learning.png"):
        assert (run / name).stat().st_size > 1000


def test_human_texts_of_a_path_do_not_stand_together(tmp_path: Path) -> None:
    spoken = read_spoken(speaker_run(tmp_path / "run", 30.0))["val_seen"]
    assert texts_of(spoken)["human"] == [
        "Go out.",
        "Walk on.",
        "Exit the room.",
        "Turn left. Wait.",
    ]


def test_instructions_kept_elsewhere_are_owned_up_to(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [row(i, **scores(BLEU, "val_seen", 9.0 + i)) for i in (0, 1)])
    write_results(config_of(stage="speaker"), run)
    assert "keep theirs elsewhere" in (run / "results.md").read_text()
    assert not (run / "statistics.csv").exists() and (run / "learning.png").exists()


def test_a_damaged_file_of_instructions_is_named(tmp_path: Path) -> None:
    run = speaker_run(tmp_path / "run", 30.0)
    (run / "clients" / "oak" / "spoken_val_seen.json").write_text('[{"path_id": 1}]')
    with pytest.raises(InputError, match=r"oak/spoken_val_seen.json: expected a list"):
        read_spoken(run)


@pytest.mark.slow
def test_stages_have_a_table_each(tmp_path: Path) -> None:
    runs = {}
    for seed in (0, 1):
        write_run(tmp_path / f"fed/seed-{seed}", agent_rows([0.1, 0.4 + seed / 10], [0.1, 0.3]))
        runs[f"fed/seed-{seed}"] = config_of(seed=seed)
        speaker_run(tmp_path / f"talk/seed-{seed}", 30.0 + 2 * seed)
        runs[f"talk/seed-{seed}"] = config_of(stage="speaker", seed=seed)
    best = row(3, "closing", **{"selected-round": 2.0})
    write_run(tmp_path / "more/seed-0", [*agent_rows([0.1, 0.6], [0.1, 0.2]), best])
    runs["more/seed-0"] = config_of(stage="augment", selection="best-val-seen")
    write_comparison(tmp_path, runs)
    text = (tmp_path / "results.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Agents trained in seen houses",
        "## Agents trained in seen houses, with generated instructions as well",
        "## Speakers",
    ]
    assert cells(text, "fed")[1:6] == [
        "2",
        "0.45 ± 0.07",
        "46.00 ± 7.07",
        "47.00 ± 7.07",
        "48.00 ± 7.07",
    ]
    assert cells(text, "fed")[8:11] == ["2", "100", "40"] and cells(text, "more")[5] == "63.00"
    assert "Scores shown: last round (round 2)." in text
    assert "Scores shown: best on val-seen (round 2)." in text
    assert cells(text, "talk")[2:4] == ["31.00 ± 1.41", "31.01 ± 1.41"]
    assert cells(text, "val-seen, human")[2] == "3.75"
    assert cells(text, "val-seen, talk")[2] == "5.00 ± 0.00"
    for stage in ("train", "augment", "speaker"):
        assert (tmp_path / f"learning-{stage}.png").stat().st_size > 1000
