"""Follows a JSONL file that another process appends to, and may replace by a shorter one."""

import json
from pathlib import Path
from typing import Any


class Tail:
    """`rows()` gives what has come since the last call; from the start again if the file was replaced."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode, self._offset = 0, 0

    def rows(self) -> list[dict[str, Any]]:
        try:
            with self.path.open("rb") as file:
                inode = self.path.stat().st_ino
                if inode != self._inode:
                    self._inode, self._offset = inode, 0
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        self._offset += end
        return [json.loads(line) for line in data[:end].splitlines()]
