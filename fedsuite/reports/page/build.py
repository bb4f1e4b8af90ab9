"""A report of runs, from their digests: a part per system, the same sections in each."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fedsuite.reports.page.audits import audit_section
from fedsuite.reports.page.card import card_of
from fedsuite.reports.page.clients import failures_section, participation_section, scores_section
from fedsuite.reports.page.curves import curves_section, training_section
from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Figure, Part, Report
from fedsuite.reports.page.opening import answers_of
from fedsuite.reports.page.pictures import pictures_section
from fedsuite.reports.page.results import paper_section, results_section
from fedsuite.reports.page.settings_table import again_section, ends_section, settings_section
from fedsuite.reports.page.times import times_section
from fedsuite.reports.page.traffic import traffic_section
from fedsuite.settings.config import Value


def part_of(title: str, digests: Sequence[Digest], defaults: Mapping[str, Value]) -> Part:
    """The runs of one system; defaults: of its settings. Sections with nothing in them are left out."""
    sections = (
        results_section(digests),
        paper_section(digests),
        curves_section(digests),
        training_section(digests),
        scores_section(digests),
        pictures_section(digests),
        participation_section(digests),
        traffic_section(digests),
        audit_section(digests),
        times_section(digests),
        failures_section(digests),
        settings_section(digests, defaults),
        ends_section(digests),
        again_section(digests, defaults),
    )
    return Part(title, tuple(s for s in sections if not s.is_empty))


def report_of(
    title: str, systems: Mapping[str, tuple[Sequence[Digest], Mapping[str, Value]]]
) -> Report:
    """systems: name -> digests of its runs, and the defaults of its settings."""
    several = len(systems) > 1
    answers = tuple(
        text
        for name, (digests, _) in systems.items()
        for text in answers_of(name, digests, several)
    )
    parts = [part_of(name, *given) for name, given in systems.items()]
    every = [(digest, defaults) for digests, defaults in systems.values() for digest in digests]
    card = partial(card_of, *every[0]) if len(every) == 1 else None
    return Report(title, answers, tuple(_with_own_names(parts)), card=card)


def _with_own_names(parts: Sequence[Part]) -> Iterator[Part]:
    """Figures with names that are fit for files and that no two have; of several parts, after theirs."""
    taken: set[str] = set()

    def named(figure: Figure, part: Part) -> Figure:
        before = f"{part.title}-" if len(parts) > 1 else ""
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", before + figure.name).strip("-")
        free = (f"{plain}-{n}" if n > 1 else plain for n in itertools.count(1))
        name = next(name for name in free if name not in taken)
        taken.add(name)
        return replace(figure, name=name)

    for part in parts:
        sections = (
            replace(s, figures=tuple(named(f, part) for f in s.figures)) for s in part.sections
        )
        yield replace(part, sections=tuple(sections))
