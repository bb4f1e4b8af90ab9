r"""Formulas of a page as MathML, which browsers set themselves: no script, no fonts, no network.

Pages write them as GitHub reads them, in LaTeX: in a sentence between $` and `$, as in $`\theta_i`$, and by themselves as

    ```math
    Q_f(s, a) = \sum_i Q_i(s_i, a)
    ```

What stands in other fences and in indented blocks is code and stays as it is. A formula that cannot be read ends the build.
"""

import re

from latex2mathml.converter import convert

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"^(?: {4}.*)$|\$`(.+?)`\$", re.MULTILINE)
MARKS = re.compile(r"[*_`\\\[\]|]")


class FormulaError(ValueError):
    """A formula that is no LaTeX; names the formula."""


def set_formulas(markdown: str) -> str:
    """The page with its formulas as MathML; raises FormulaError."""
    parts, reached = [], 0
    for fence in FENCE.finditer(markdown):
        parts.append(INLINE.sub(_inline, markdown[reached : fence.start()]))
        block = fence[1] == "math"
        parts.append(
            f'<div class="formula">{_mathml(fence[2], "block")}</div>' if block else fence[0]
        )
        reached = fence.end()
    return "".join([*parts, INLINE.sub(_inline, markdown[reached:])])


def _inline(found: re.Match[str]) -> str:
    # In a span, because Markdown takes a line that begins with <math> for a block of its own.
    return f"<span>{_mathml(found[1], 'inline')}</span>" if found[1] else found[0]


def _mathml(latex: str, display: str) -> str:
    """One line of MathML in which nothing is a mark of Markdown."""
    written = " ".join(latex.split())
    try:
        made = convert(written, display=display)
    except Exception as error:  # the package's errors have no class in common
        raise FormulaError(f"formula {written!r} is no LaTeX: {type(error).__name__}") from error
    if "\\" in made:  # what it does not know, it leaves
        raise FormulaError(f"formula {written!r} has a command that MathML cannot be made of")
    return MARKS.sub(lambda mark: f"&#{ord(mark[0])};", made)
