"""A run-config as TOML: for `fedsuite config`, for pyproject.toml, and for what is handed to Flower."""

import json
from collections.abc import Mapping
from itertools import groupby

from fedsuite.settings.config import Value


def as_toml(flat: Mapping[str, Value], root: str = "") -> str:
    """Dotted keys as tables, below the table `root` if that is given."""

    def table_of(key: str) -> str:
        return f"{root}.{key}".strip(".").rpartition(".")[0]

    lines = []
    for table, keys in groupby(sorted(flat, key=lambda key: (table_of(key), key)), table_of):
        lines += ["", f"[{table}]"] if table else []
        lines += [
            f"{k.rpartition('.')[2]} = {json.dumps(flat[k], ensure_ascii=False)}" for k in keys
        ]
    return "\n".join(lines).lstrip() + "\n"
