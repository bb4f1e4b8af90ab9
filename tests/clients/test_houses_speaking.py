"""Federated training of the speaker: scores of all houses together, texts that stay, and which round is the result."""

import json
from pathlib import Path
from typing import Any

import pytest
import sacrebleu

from fedsuite.vln.data.instructions import tokenize
from tests.fedvln_runs import Chain, chain_in, kind_of, record_of
from tests.harness import Recorder, arrays_in

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "num_rounds": 5, "batch_size": 4, "local_epochs": 12, "learning_rate": 0.01, "max_generated_length": 30,
    "selection": "best-val-seen", "dropout": 0.1, "feature_dropout": 0.1, "hidden_size": 32, "word_embedding_size": 16,
}  # fmt: skip
SPLITS = ("val_seen", "val_unseen")


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return chain_in(tmp_path_factory.getbasetemp(), __name__)


@pytest.fixture(scope="module")
def spoken(chain: Chain) -> Recorder:
    """A speaker that has learnt enough to share some four-grams with people."""
    return chain.play("spoken", "speaker", **SETTINGS)


def rows_of(run: Path, kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [r for r in rows if r["kind"] == kind]


def texts_of(run: Path, split: str) -> list[dict[str, Any]]:
    files = sorted((run / "clients").glob(f"*/spoken_{split}.json"))
    return [row for file in files for row in json.loads(file.read_text())]


def corpus_bleu(rows: list[dict[str, Any]], order: int) -> float:
    """By sacrebleu, over all houses' texts at once."""
    references = [[" ".join(tokenize(t)) for t in row["references"]] for row in rows]
    most = max(map(len, references))
    streams = [[own[i] if i < len(own) else None for own in references] for i in range(most)]
    metric = sacrebleu.BLEU(
        tokenize="none", smooth_method="none", force=True, max_ngram_order=order
    )
    return float(metric.corpus_score([r["instruction"] for r in rows], streams).score)  # type: ignore[arg-type]


def test_bleu_is_that_of_all_houses_texts_together(chain: Chain, spoken: Recorder) -> None:
    (closing,) = rows_of(chain.run("spoken"), "closing")
    metrics = closing["metrics"]
    for split in SPLITS:
        rows = texts_of(chain.run("spoken"), split)
        assert len(rows) == metrics[f"{split}.count"] > 2
        for order in (1, 2, 3, 4):
            want = corpus_bleu(rows, order)
            assert metrics[f"{split}.bleu-{order}"] == pytest.approx(want)
        assert 0 < metrics[f"{split}.bleu-4"] < metrics[f"{split}.bleu-1"] <= 100


def test_bleu_is_not_the_mean_of_the_houses(chain: Chain, spoken: Recorder) -> None:
    """Else the test above would not show that counts are added up."""
    run = chain.run("spoken")
    files = sorted((run / "clients").glob("*/spoken_val_seen.json"))
    assert len(files) == 2
    own = [json.loads(f.read_text()) for f in files]
    mean = sum(corpus_bleu(rows, 2) * len(rows) for rows in own) / sum(map(len, own))
    (closing,) = rows_of(run, "closing")
    assert abs(closing["metrics"]["val_seen.bleu-2"] - mean) > 1e-6


def test_texts_stay_on_the_houses_disks(chain: Chain, spoken: Recorder) -> None:
    rows = [row for split in SPLITS for row in texts_of(chain.run("spoken"), split)]
    assert all(set(row) == {"path_id", "instruction", "references"} for row in rows)
    assert all(row["references"] and isinstance(row["path_id"], int) for row in rows)
    said = {row["instruction"] for row in rows} | {t for row in rows for t in row["references"]}
    said -= {""}
    assert len(said) > 20
    names = {p.name for p in (chain.run("spoken") / "clients").iterdir()}
    for message in [*spoken.sent, *spoken.received]:
        for record in message.content.values():
            for value in record.values():
                if isinstance(value, str | bytes | list):
                    assert value in names or str(value).replace(",", "").isdecimal()
            assert not said & {str(key) for key in record}


def test_messages_carry_the_speaker_and_counts(chain: Chain, spoken: Recorder) -> None:
    trained = {"num-examples", "steps", "loss", "gradient-norm"}
    counts = {f"{kind}-{n}" for kind in ("correct", "total") for n in (1, 2, 3, 4)}
    counts |= {"words", "reference-words", "shortest-reference-words", "count"}
    counts |= {"cross-entropy", "right-words", "target-words"}
    allowed = [{f"{split}.{name}" for name in counts} for split in SPLITS]
    kinds = set()
    for message in spoken.received:
        kinds.add(kind_of(message))
        if kind_of(message) == "train":
            assert set(record_of(message, "metrics")) == trained
            assert {k.split(".")[0] for k in arrays_in(message)} == {"encoder", "decoder"}
        elif kind_of(message) == "evaluate":
            metrics = set(record_of(message, "metrics")) - {"num-examples", "loss"}
            assert arrays_in(message) == {} and metrics in allowed
    assert kinds == {"query", "train", "evaluate"}


def test_the_result_is_the_round_with_the_best_bleu_2_in_seen_houses(
    chain: Chain, spoken: Recorder
) -> None:
    run = chain.run("spoken")
    rounds = [r["metrics"] for r in rows_of(run, "round")]
    found = [(m["val_seen.bleu-2"], m["val_seen.bleu-4"]) for m in rounds]
    best = found.index(max(found))  # the first of equals
    (closing,) = rows_of(run, "closing")
    assert closing["metrics"]["selected-round"] == best
    assert 0 < best < SETTINGS["num_rounds"], "choose other settings: the choice must matter"
    for split in SPLITS:
        assert closing["metrics"][f"{split}.bleu-2"] == rounds[best][f"{split}.bleu-2"]
    shorter = {**SETTINGS, "num_rounds": best, "selection": "last"}
    chain.play("spoken-up-to-best", "speaker", **shorter)
    other = chain.run("spoken-up-to-best")
    assert (run / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    for split in SPLITS:
        assert texts_of(run, split) == texts_of(other, split)
