"""A line in a notebook's output that is replaced as it changes; rich's own Live needs ipywidgets for that."""

from typing import Any

from rich.console import RenderableType
from rich.text import Text


class NotebookLine:
    """What of rich's Live is used here, in a notebook."""

    def __init__(self, line: RenderableType) -> None:
        self._line = line
        self._shown: Any = None

    def start(self) -> None:
        from IPython.display import display  # a notebook has it

        self._shown = display(self._line, display_id=True)

    def update(self, line: RenderableType) -> None:
        self._line = line
        if self._shown is not None:
            self._shown.update(line)

    def stop(self) -> None:
        """The output stays, empty."""
        self.update(Text(""))
