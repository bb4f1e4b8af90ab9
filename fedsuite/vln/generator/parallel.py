"""The same work for many things, in several processes: results in order, whatever the number of processes.

A worker is a Python of its own that runs this module. It gets a function and every k-th item through its standard input
and sends results back through its standard output, both pickled, so that a caller's script needs no `if __name__ ==
"__main__"` and no threads are forked. Results are handed on in the order of the items.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, TypeVar

from fedsuite.errors import RunFailed, one_line

FEW = 64  # so many items are done sooner in this process than others are started
T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def mapped(function: Callable[[T], R], items: Sequence[T], processes: int = 0) -> Iterator[R]:
    """function(item) of all items, in their order; what a call raises is raised here.

    function: of a module's top level, or a `partial` of one; items and results: whatever pickle takes. processes: 0 = one
    for each core, and none but this one for a few items. RunFailed if a process dies.
    """
    count = min(processes or (cores() if len(items) > FEW else 1), len(items))
    if count <= 1:
        yield from map(function, items)
        return
    with ExitStack() as stack:
        workers = [stack.enter_context(_Worker()) for _ in range(count)]
        for k, worker in enumerate(workers):
            worker.begin(function, items[k::count])
        for i in range(len(items)):
            yield workers[i % count].result()


class _Worker:
    """A process; ended when the `with` is left."""

    def __enter__(self) -> "_Worker":
        root = str(Path(__file__).resolve().parents[3])
        paths = dict.fromkeys([root, *filter(None, sys.path)])
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fedsuite.vln.generator.parallel"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)},
        )
        return self

    def begin(self, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
        """Hand over all its work; it reads that before it begins."""
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stdin:
                pickle.dump((function, list(items)), stdin)
        except BrokenPipeError:
            raise self._died() from None

    def result(self) -> Any:
        """The next result."""
        assert self._process.stdout is not None
        try:
            worked, value = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise self._died() from None
        if not worked:
            raise value
        return value

    def _died(self) -> RunFailed:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        told = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return RunFailed(
            f"a process that prepares data ended with code {code} (out of memory?): {one_line(told, 200)}; start again"
        )

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()


def _work(source: IO[bytes], sink: IO[bytes]) -> None:
    function, items = pickle.load(source)
    for item in items:
        try:
            answer = (True, function(item))
        except Exception as error:  # the caller decides what it is
            answer = (False, error)
        pickle.dump(answer, sink)
        sink.flush()


def main() -> None:
    """Work until all items are done; what is printed meanwhile goes to standard error."""
    with os.fdopen(os.dup(1), "wb") as sink:
        os.dup2(2, 1)
        _work(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()
