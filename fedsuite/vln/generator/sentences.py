"""Clauses of a simulated annotator joined to sentences, with the slips of people who type."""

import numpy as np

from fedsuite.vln.generator.phrases import MISSPELT, Annotator

# Beginnings of clauses that cannot stand alone.
_OPENINGS = ("with ", "start facing", "you start")


def sentences(clauses: list[str], rng: np.random.Generator, person: Annotator) -> str:
    """Clauses joined in the person's way, capitals and full stops."""
    parts: list[list[str]] = []
    most = {"sentences": 2, "commas": 5, "then": 3}[person.glue]
    for k, clause in enumerate(clauses):
        last = k == len(clauses) - 1
        full = bool(parts) and len(parts[-1]) >= int(rng.integers(1, most + 1))
        alone = bool(parts) and len(parts[-1]) == 1 and parts[-1][0].startswith(_OPENINGS)
        if not parts or ((full or (last and rng.random() < 0.5)) and not alone):
            parts.append([])
        parts[-1].append(clause)
    text = [_joined(p, rng, person, k > 0) for k, p in enumerate(parts)]
    return " ".join(text)


def _joined(parts: list[str], rng: np.random.Generator, person: Annotator, later: bool) -> str:
    first = parts[0]
    if later and person.glue == "then" and rng.random() < 0.4 and not first.startswith("then"):
        first = "then " + first
    out = first[0].upper() + first[1:]
    for k, part in enumerate(parts[1:], 1):
        link = ", " if k < len(parts) - 1 or rng.random() < 0.3 else " and "
        if person.glue == "then" and rng.random() < 0.5 and not part.startswith("then"):
            link = ", then " if rng.random() < 0.6 else " and then "
        if link.endswith("and ") and part.startswith("then"):
            link = ", "
        if parts[k - 1].startswith(_OPENINGS):
            link = ", "
        elif link == ", " and not part.startswith("then") and k == len(parts) - 1:
            link = ", and " if rng.random() < 0.5 else link
        out += link + part
    return out + "."


def with_slips(text: str, rng: np.random.Generator, person: Annotator) -> str:
    """Typing: misspelt words, capitals, a missing or superfluous end."""
    tokens = []
    for token in text.split(" "):
        bare = token.rstrip(".,").lower()
        if bare in MISSPELT and rng.random() < person.typo:
            token = MISSPELT[bare] + token[len(bare) :]
        tokens.append(token)
    text = " ".join(tokens)
    if person.case == "lower":
        text = text.lower()
    elif person.case == "upper":
        text = text.upper()
    if rng.random() < 0.06:
        text = text.rstrip(".")
    return text + (" " if rng.random() < 0.25 else "")
