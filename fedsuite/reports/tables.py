"""Mean and spread over seeds, and tables in Markdown."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedsuite.errors import InputError
from fedsuite.storage.escaping import in_markdown


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1 in the denominator; NaN for n = 1) of n values."""

    mean: float
    standard_deviation: float
    n: int

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """Such as "63.1 ± 0.4", the deviation only if there is one; "-" without values."""
        if self.n == 0:
            return "-"
        mean = f"{self.mean * scale:.{digits}f}"
        return mean if self.n == 1 else f"{mean} ± {self.standard_deviation * scale:.{digits}f}"


def mean_and_spread(values: Iterable[float]) -> Spread:
    """Mean and spread over seeds; NaN values (no result) do not count."""
    found = [float(v) for v in values if not math.isnan(v)]
    n = len(found)
    mean = math.fsum(found) / n if n else math.nan
    square = math.fsum((v - mean) ** 2 for v in found)
    return Spread(mean, math.sqrt(square / (n - 1)) if n > 1 else math.nan, n)


def markdown_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as Markdown with a final newline; all columns but the first are aligned to the right."""
    if not rows:
        raise InputError("no runs to tabulate; name at least one finished run")
    columns = list(rows[0])
    for number, row in enumerate(rows):
        if list(row) != columns:
            raise ValueError(f"row {number}: expected the columns {columns}, got {list(row)}")
    lines = [[in_markdown(name) for name in columns], ["---"] + ["---:"] * (len(columns) - 1)]
    lines += [[in_markdown(str(row[name])) for name in columns] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
