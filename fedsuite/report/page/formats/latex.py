"""A report's tables as LaTeX, for a document that loads booktabs; longtable and graphicx are not needed."""

import re
from collections.abc import Iterator

from fedsuite.errors import one_line
from fedsuite.report.page.formats.html import LONGEST, aligned
from fedsuite.report.page.model import Report, Table

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "…": r"\ldots{}", "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}", "[": "{[}", "]": "{]}", "--": "{-}{-}",
}  # fmt: skip
_PATTERN = re.compile("|".join(map(re.escape, _SPECIAL)))
_NUMBER = re.compile(r"-\d")


def as_latex(report: Report) -> str:
    """All tables; texts as comments' neighbours, in order."""
    return "\n".join(_lines(report)) + "\n"


def escaped(text: str) -> str:
    """Text that is nothing but text in LaTeX; minus signs of numbers as such."""
    plain = one_line(text, LONGEST)
    if _NUMBER.match(plain):
        return f"${plain.split(' ')[0]}$" + _replaced(plain[len(plain.split(" ")[0]) :])
    return _replaced(plain)


def _replaced(text: str) -> str:
    return _PATTERN.sub(lambda m: _SPECIAL[m[0]], text)


def _lines(report: Report) -> Iterator[str]:
    yield "% Tables of `fedsuite report`. In the preamble:"
    yield r"% \usepackage{booktabs} \usepackage[T1]{fontenc} \usepackage{textcomp}"
    for sentence in report.answer:
        yield from ("", escaped(sentence))
    for part in report.parts:
        for section in part.sections:
            for table in section.tables:
                yield from ("", f"% {one_line(part.title)}, {one_line(section.title)}")
                yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    kinds = "".join({"n": "r", "t": "l"}[kind] for kind in aligned(table))
    yield r"\begin{table}"
    yield r"\centering"
    yield rf"\caption{{{escaped(table.title)}}}"
    yield rf"\begin{{tabular}}{{{kinds}}}"
    yield r"\toprule"
    yield " & ".join(map(escaped, table.columns)) + r" \\"
    yield r"\midrule"
    for row in table.rows:
        yield " & ".join(map(escaped, row)) + r" \\"
    yield from (r"\bottomrule", r"\end{tabular}")
    if table.note:
        yield rf"\par\smallskip\footnotesize {escaped(table.note)}"
    yield r"\end{table}"
