"""A report's tables as LaTeX, for a document that loads booktabs; longtable and graphicx are not needed."""

from collections.abc import Iterator

from fedsuite.errors import one_line
from fedsuite.reports.page.formats.html import aligned
from fedsuite.reports.page.model import Report, Table
from fedsuite.storage.escaping import in_latex


def as_latex(report: Report) -> str:
    """All tables; texts as comments' neighbours, in order."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "% Tables of `fedsuite report`. In the preamble:"
    yield r"% \usepackage{booktabs} \usepackage[T1]{fontenc} \usepackage{textcomp}"
    for sentence in report.answer:
        yield from ("", in_latex(sentence))
    for part in report.parts:
        for section in part.sections:
            for table in section.tables:
                yield from ("", f"% {one_line(part.title)}, {one_line(section.title)}")
                yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    kinds = "".join({"n": "r", "t": "l"}[kind] for kind in aligned(table))
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{in_latex(table.title)}}}"
    yield rf"\begin{{tabular}}{{{kinds}}}"
    yield r"\toprule"
    yield " & ".join(map(in_latex, table.columns)) + r" \\"
    yield r"\midrule"
    for row in table.rows:
        yield " & ".join(map(in_latex, row)) + r" \\"
    yield from (r"\bottomrule", r"\end{tabular}")
    if table.note:
        yield rf"\par\smallskip\footnotesize {in_latex(table.note)}"
    yield r"\end{table}"
