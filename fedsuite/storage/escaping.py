"""Text from elsewhere (clients' errors and names, names of runs, values of settings) as nothing but text: a function for
each format that others typeset or open.

HTML is escaped by Jinja (fedsuite/reports/page/formats/html.py). What comes to a terminal goes through `PlainConsole`.
"""

import codecs
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, JustifyMethod, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from fedsuite.errors import one_line

if TYPE_CHECKING:
    import pandas as pd

LONGEST = 5000  # characters of a text
STAND_IN = "fedsuite.stand-in"
"""An error handler for terminals and logs that are not in UTF-8: a character that they lack becomes one of ASCII."""
_ASCII = str.maketrans("━╌▁▂▃▄▅▆▇█✓✗…±", "#-_.:-=+*#+x.~")


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end].translate(_ASCII)
    return found.encode("ascii", "replace").decode("ascii"), error.end


codecs.register_error(STAND_IN, _stand_in)


def replace_what_stdout_lacks() -> None:
    """Of characters: without this, whoever prints one fails. On stderr Python itself prints their numbers."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=STAND_IN)


def printable(text: str) -> str:
    """Lines without control characters, and without those that turn the direction of writing."""
    return "".join(c for c in text if c.isprintable() or c == "\n")


# --- Markdown ----------------------------------------------------------------------------------------

# Beside what Markdown itself reads: addresses, which some readers make links of.
_MARKS = re.compile(r"([\\`*\[\]<>|~$&@]|:(?=//)|(?<=www)\.)")
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # others stand inside of words
_BLOCK = re.compile(r"^([#+=-]|\d+[.)])")


def in_markdown(text: str) -> str:
    """As a part of a line of Markdown, or as a cell of a table."""
    return _UNDERSCORE.sub(r"\\_", _MARKS.sub(r"\\\1", one_line(text, LONGEST)))


def markdown_paragraph(text: str) -> str:
    """The same at the beginning of a line."""
    return _BLOCK.sub(lambda m: f"{m[1][:-1]}\\{m[1][-1]}", in_markdown(text).lstrip())


def markdown_name(text: str) -> str:
    """A name as code inside of a line."""
    return "`" + one_line(text).replace("`", "'") + "`"


def markdown_code(text: str) -> str:
    """Lines as they stand, between fences that are longer than any in them."""
    lines = [one_line(line, LONGEST) for line in text.split("\n")]
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return "\n".join([fence, *lines, fence])


# --- LaTeX -------------------------------------------------------------------------------------------

_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "±": r"$\pm$", "…": r"\ldots{}", "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}", "[": "{[}", "]": "{]}", "--": "{-}{-}", "*": "{*}",
}  # fmt: skip
_COMMAND = re.compile("|".join(map(re.escape, _COMMANDS)))
_NEGATIVE = re.compile(r"-[\d,]*\.?\d+(e[+-]?\d+)?(?= |$)", re.ASCII)  # a whole word


def in_latex(text: str) -> str:
    """As a part of a paragraph or a cell; a negative number at its beginning has a minus sign."""
    plain = one_line(text, LONGEST)
    number = found[0] if (found := _NEGATIVE.match(plain)) else ""
    rest = _COMMAND.sub(lambda m: _COMMANDS[m[0]], plain[len(number) :])
    return (f"${number}$" if number else "") + rest


# --- CSV ---------------------------------------------------------------------------------------------

_FORMULA = ("=", "+", "-", "@", "\t", "\n")  # what spreadsheets compute begins so


def in_csv(value: Any) -> Any:
    """A text that a spreadsheet shows and does not compute: with ' before what would begin a formula, and without returns,
    after which a row would begin. Others as they are.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_text(frame: "pd.DataFrame") -> str:
    """A frame as CSV, its texts and its columns' names through `in_csv`; numbers stay numbers."""
    shown = frame.rename(columns=in_csv)
    for place, kind in enumerate(frame.dtypes):
        if str(kind) in ("object", "str", "string", "category"):
            texts = shown.iloc[:, place].map(in_csv, na_action="ignore")
            shown.isetitem(place, texts.array)
    return shown.to_csv(index=False)


# --- terminals ---------------------------------------------------------------------------------------


class PlainConsole(Console):
    """A terminal on which nothing that is printed is markup, an emoji's name, a link, or moves the cursor: a text comes as
    one line, and control characters that are left anywhere go. What its encoding does not have is replaced (STAND_IN).
    """

    def render_str(
        self,
        text: str,
        *,
        style: str | Style = "",
        justify: JustifyMethod | None = None,
        overflow: OverflowMethod | None = None,
        **_: Any,
    ) -> Text:
        return Text(one_line(text, LONGEST), style, justify=justify, overflow=overflow)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            plain = printable(text).encode(self.encoding, STAND_IN).decode(self.encoding)
            yield Segment(text if control else plain, style and style.update_link(None), control)


def redraws(console: Console) -> bool:
    """Whether what was drawn can be drawn over: on a terminal that knows how. FORCE_COLOR makes no terminal of a file."""
    coloured = os.environ.get("FORCE_COLOR") and not console.file.isatty()
    return console.is_terminal and not console.is_dumb_terminal and not coloured
