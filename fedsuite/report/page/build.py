"""A report of runs, from their digests: a part per system, the same sections in each."""

from collections.abc import Mapping, Sequence

from fedsuite.config import Value
from fedsuite.report.page.clients import failures_section, participation_section, scores_section
from fedsuite.report.page.curves import curves_section
from fedsuite.report.page.digest import Digest
from fedsuite.report.page.model import Part, Report
from fedsuite.report.page.results import answer_of, paper_section, results_section
from fedsuite.report.page.settings import again_section, ends_section, settings_section
from fedsuite.report.page.times import times_section
from fedsuite.report.page.traffic import traffic_section


def part_of(title: str, digests: Sequence[Digest], defaults: Mapping[str, Value]) -> Part:
    """The runs of one system; defaults: of its settings. Sections with nothing in them are left out."""
    sections = (
        results_section(digests),
        paper_section(digests),
        curves_section(digests),
        scores_section(digests),
        participation_section(digests),
        traffic_section(digests),
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
    answers = tuple(answer_of(name, digests) for name, (digests, _) in systems.items())
    parts = tuple(part_of(name, *given) for name, given in systems.items())
    return Report(title, answers, parts)
