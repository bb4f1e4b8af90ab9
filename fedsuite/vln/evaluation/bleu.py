"""BLEU of a speaker, from counts that add up over houses.

Source: Papineni et al. 2002, counted by sacrebleu, without smoothing: clipped n-gram matches against the union of a path's
references, and a brevity penalty exp(1 - r / c) where the c words written are fewer than r, the reference length.

  bleu-k              geometric mean of the precisions of orders 1..k, r = length of the closest reference, 0..100
  bleu-4-published    bleu-4 with r = length of the shortest reference, as in the official release
"""

from collections.abc import Mapping, Sequence
from typing import cast

ORDERS = (1, 2, 3, 4)
"""Orders of the n-grams that are counted."""

WRITTEN = "words"
CLOSEST = "reference-words"
SHORTEST = "shortest-reference-words"


def bleu_counts(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> dict[str, float]:
    """Sums over hypotheses, each with one or more references of its own, all as tokens.

    correct-n, total-n: n-grams that match, and all of the hypotheses; words; reference-words (closest);
    shortest-reference-words.
    """
    from sacrebleu.metrics.bleu import BLEU  # who trains an agent alone writes no words

    names = [f"{kind}-{n}" for kind in ("correct", "total") for n in ORDERS]
    names += [WRITTEN, CLOSEST, SHORTEST]
    if not hypotheses:
        return dict.fromkeys(names, 0.0)
    lines = [_line(h) for h in hypotheses]
    most = max(len(r) for r in references)
    # sacrebleu wants the first reference of all, the second of all, ..; None where there is none.
    streams = [[_line(r[k]) if k < len(r) else None for r in references] for k in range(most)]
    counter = BLEU(tokenize="none", smooth_method="none", force=True, max_ngram_order=max(ORDERS))
    score = counter.corpus_score(lines, cast(list[list[str]], streams))  # its hints leave None out
    shortest = sum(min(len(r) for r in refs) for refs in references)
    sums = (*score.counts, *score.totals, score.sys_len, score.ref_len, shortest)
    return {name: float(value) for name, value in zip(names, sums, strict=True)}


def corpus_bleu(counts: Mapping[str, float], order: int, published: bool = False) -> float:
    """bleu-`order`, 0..100, from summed counts; published: beside the shortest reference."""
    from sacrebleu.metrics.bleu import BLEU

    reference = SHORTEST if published else CLOSEST
    correct, total = (
        [int(counts[f"{kind}-{n}"]) for n in ORDERS[:order]] for kind in ("correct", "total")
    )
    lengths = int(counts[WRITTEN]), int(counts[reference])
    return float(BLEU.compute_bleu(correct, total, *lengths, max_ngram_order=order).score)


def _line(tokens: Sequence[str]) -> str:
    """Tokens as sacrebleu reads them; one with a space inside stays one."""
    return " ".join("\u2581".join(t.split()) for t in tokens)
