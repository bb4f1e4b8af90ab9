"""Numbers in sentences that are those of stored scores.

Before a paragraph, a list or a table of a page stands a comment, in TOML, which the site leaves out (or a comment that names
the file of docs/results where it stands: from = "readme.toml#notes"):

    <!-- numbers
    file = "fedvln/augment-control.csv"
    of = [
      { variant = "federated", form = "{val_unseen.sr*100:.1f!mean}" },
      { variant = "federated", less = { variant = "federated-control" }, form = "{val_unseen.sr*100:.1f!ends}" },
    ]
    -->

Each entry chooses lines of the scores and has a form (scores.py); `less` chooses those that are taken away from them. The
text up to the next empty line has to have what the entries come to, one after the other: `python -m docs.tables --check`
says which is missing.
"""

import re
from collections.abc import Iterator

from docs.scores import TableError, about_of, number_of

NUMBERS = re.compile(r"^<!-- numbers\n(.*?)-->\n\n?", re.MULTILINE | re.DOTALL)
OTHER = re.compile(r"^<!-- .*?-->\n*", re.MULTILINE | re.DOTALL)


def missing(text: str) -> Iterator[tuple[int, str]]:
    """Line of the page, from 1, and what its text should have, of every number that is not where its entry says."""
    for comment in NUMBERS.finditer(text):
        about = about_of(comment[1])
        line = text.count("\n", 0, comment.end()) + 1
        block = OTHER.sub("", text[comment.end() :]).partition("\n\n")[0]
        words, reached = re.sub(r"\s+", " ", block.replace("**", "")), 0
        for entry in about["of"]:
            try:
                told = number_of({"file": about.get("file", ""), **entry})
            except TableError as error:
                raise TableError(f"line {line}: {error}") from None
            if not told:
                raise TableError(f"line {line}: no scores for {entry}")
            found = re.compile(rf"(?<![\w.]){re.escape(told)}(?!\d|[.,]\d)").search(words, reached)
            if found is None:
                yield line, told
            else:
                reached = found.end()
