"""How houses' scores become one: agents by means over instructions, speakers by sums."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from fedsuite.averaging.merging import merged_metrics
from fedsuite.federation import ClientInfo, Reply
from fedsuite.vln.evaluation.bleu import bleu_counts
from fedsuite.vln.metrics import AGENT_METRICS, SPEAKER_METRICS
from strategies.scoring import (
    evaluate_everywhere,
    merged_scores,
    under_split,
)

WORDS = ("walk", "past", "the", "door", "and", "stop")


def reply(partition: int, **metrics: float) -> Reply:
    return Reply(partition, {}, 1, {k.replace("__", "."): v for k, v in metrics.items()})


# --- agents -----------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 20), st.floats(0, 1)), min_size=1, max_size=6))
def test_agents_are_scored_per_instruction(houses: list[tuple[int, float]]) -> None:
    """As if every instruction's own score stood in one long list."""
    own = [{"sr": rate, "count": float(n)} for n, rate in houses]
    flat = [rate for n, rate in houses for _ in range(n)]
    merged = merged_metrics(AGENT_METRICS, own)
    assert merged["sr"] == pytest.approx(np.mean(flat)) and merged["count"] == len(flat)


def test_houses_without_instructions_count_for_nothing() -> None:
    assert (
        merged_metrics(AGENT_METRICS, []) == {}
        and merged_metrics(AGENT_METRICS, [{"count": 0.0}]) == {}
    )
    assert merged_metrics(SPEAKER_METRICS, []) == {}


def test_splits_are_kept_apart_and_the_headline_comes_first() -> None:
    replies = [
        reply(0, loss=0.0, val_seen__tl=9.0, val_seen__sr=0.5, val_seen__count=2.0),
        reply(1, loss=0.0, val_unseen__tl=7.0, val_unseen__sr=0.25, val_unseen__count=4.0),
        reply(2, loss=0.0, val_seen__tl=3.0, val_seen__sr=1.0, val_seen__count=1.0),
    ]
    merged = merged_scores(replies, AGENT_METRICS)
    assert list(merged)[:2] == ["val_unseen.sr", "val_seen.sr"]
    assert merged == pytest.approx(
        {
            "val_seen.sr": 2 / 3, "val_seen.tl": 7.0, "val_seen.count": 3,
            "val_unseen.sr": 0.25, "val_unseen.tl": 7.0, "val_unseen.count": 4,
        }
    )  # fmt: skip


def test_a_splits_metrics_by_name() -> None:
    metrics = {"val_seen.sr": 1.0, "val_unseen.sr": 2.0, "loss": 3.0, "val_seen.bleu-2": 4.0}
    assert under_split(metrics, "val_seen") == {"sr": 1.0, "bleu-2": 4.0}


# --- speakers ---------------------------------------------------------------------------------


def sentences(
    rng: np.random.Generator, count: int
) -> tuple[list[list[str]], list[list[list[str]]]]:
    """Written sentences and up to three references each, sharing many n-grams."""
    references = []
    for _ in range(count):
        base = list(rng.choice(WORDS, rng.integers(5, 12)))
        own = [
            base,
            *[[*base[: int(rng.integers(4, 9))], "stop"] for _ in range(rng.integers(0, 3))],
        ]
        references.append([[str(w) for w in r] for r in own])
    written = [
        r[0][: int(rng.integers(4, 12))] + ["the"] * int(rng.integers(0, 2)) for r in references
    ]
    return written, references


@pytest.mark.parametrize("seed", range(4))
def test_corpus_bleu_of_all_houses_is_sacrebleus_over_all_their_texts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    houses = [sentences(rng, int(n)) for n in rng.integers(1, 7, size=3)]
    extra = {"cross-entropy": 6.0, "right-words": 2.0, "target-words": 8.0}
    own = [{**bleu_counts(*h), **extra, "count": float(len(h[0]))} for h in houses]
    merged = merged_metrics(SPEAKER_METRICS, own)
    written = [" ".join(w) for h in houses for w in h[0]]
    references = [[" ".join(r) for r in refs] for h in houses for refs in h[1]]
    streams = [[r[i] if i < len(r) else None for r in references] for i in range(3)]
    for order in (1, 2, 3, 4):
        metric = sacrebleu.BLEU(
            tokenize="none", smooth_method="none", force=True, max_ngram_order=order
        )
        want = metric.corpus_score(written, streams).score  # type: ignore[arg-type]
        assert merged[f"bleu-{order}"] == pytest.approx(want) and want > 0
    assert merged["xe-loss"] == 0.75 and merged["word-accuracy"] == 0.25
    assert merged["count"] == len(written)


# --- who is asked -----------------------------------------------------------------------------


def test_houses_with_instructions_are_asked_with_the_model_and_nothing_back() -> None:
    clients = [
        ClientInfo(0, "a", 3, {"val_seen.count": 2}),
        ClientInfo(1, "b", 3, {}),
        ClientInfo(2, "c", 0, {"val_unseen.count": 1}),
        ClientInfo(3, "d", 0, {"test.count": 4}),
    ]
    assert [t.partition for t in next(evaluate_everywhere({}, clients, AGENT_METRICS))] == [0, 2]
    model = {"w": np.ones(2, np.float32)}
    exchange = evaluate_everywhere(model, clients, AGENT_METRICS, {"write": True})
    tasks = list(next(exchange))
    assert [t.partition for t in tasks] == [0, 2, 3], "who only walks is asked to write alone"
    assert all(t.kind == "evaluate" and t.returns == {} for t in tasks)
    assert all(t.config == {"write": True} and t.arrays is model for t in tasks)
    with pytest.raises(StopIteration) as end:
        exchange.send([reply(0, val_seen__sr=0.5, val_seen__count=2.0), reply(3)])
    assert end.value.value == {"val_seen.sr": 0.5, "val_seen.count": 2.0}
