r"""How long, how structured and how varied instructions are: generated ones held against human ones.

Source: FedVLN (Zhou & Wang 2022), Table 1 (lengths and sentences, with population variances) and Figure 4 (uses of
verbs). The paper counts with NLTK's tokenizers and part-of-speech tags; here everything follows rules that need no
trained model:

words       tokens of `fedsuite.vln.data.instructions.tokenize`, punctuation included
sentences   end at a run of . ! ? that white space or the end of the text follows; at least one a text
variety     share of distinct trigrams within blocks of 1,000 consecutive trigrams, mean over full blocks (one shorter
            block where a corpus has no full one), so that it hardly depends on how many texts there are
verbs       a closed list with their inflections (verbs.json). "left" is never one (nor in the paper), nor is any form right
            after a determiner ("the exit", "a turn"), nor a form that mostly names or describes things ("steps", "open")
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pvariance

from fedsuite.errors import InputError
from fedsuite.storage.files import read_table
from fedsuite.vln.data.instructions import tokenize

BLOCK = 1000  # trigrams
_ORDER = 3
_SENTENCE_END = re.compile(r"[.!?]+(?=\s|$)")
_VERBS = read_table(__file__, "verbs.json")
VERB_OF = {form: verb for verb, forms in _VERBS["forms"].items() for form in forms}


@dataclass(frozen=True)
class InstructionStatistics:
    """Means over texts. lengths in tokens; variances are population variances; vocabulary: distinct tokens."""

    count: int
    length: float
    length_variance: float
    sentences: float
    sentences_variance: float
    vocabulary: int
    trigram_variety: float


def instruction_statistics(texts: Iterable[str]) -> InstructionStatistics:
    """Table 1 of the paper, and two measures of variety, for one set of instructions."""
    given = list(texts)
    if not given:
        raise InputError("no instructions to count; expected at least one text")
    tokens = [tokenize(text) for text in given]
    lengths = [len(t) for t in tokens]
    sentences = [count_sentences(text) for text in given]
    return InstructionStatistics(
        count=len(given),
        length=fmean(lengths),
        length_variance=float(pvariance(lengths)),
        sentences=fmean(sentences),
        sentences_variance=float(pvariance(sentences)),
        vocabulary=len({t for own in tokens for t in own}),
        trigram_variety=trigram_variety(tokens),
    )


def count_sentences(text: str) -> int:
    """Stretches with a word in them between the ends of sentences; at least 1."""
    return max(1, sum(any(map(str.isalnum, part)) for part in _SENTENCE_END.split(text)))


def trigram_variety(tokens: Sequence[Sequence[str]], block: int = BLOCK) -> float:
    """Mean share of distinct trigrams in blocks of consecutive ones; 0 if no text has three tokens."""
    trigrams = [tuple(t[i : i + _ORDER]) for t in tokens for i in range(len(t) - _ORDER + 1)]
    if not trigrams:
        return 0.0
    full = len(trigrams) // block * block
    blocks = [trigrams[i : i + block] for i in range(0, full, block)] or [trigrams]
    return fmean(len(set(b)) / len(b) for b in blocks)


def verb_frequencies(texts: Iterable[str]) -> dict[str, float]:
    """Verb (uninflected) -> uses per instruction, most frequent first."""
    uses: Counter[str] = Counter()
    count = 0
    for text in texts:
        count += 1
        tokens = tokenize(text)
        for before, token in zip(["", *tokens], tokens, strict=False):
            if token in VERB_OF and before not in _VERBS["determiners"]:
                uses[VERB_OF[token]] += 1
    return {v: n / count for v, n in sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))}
