"""TensorBoard's event files: a folder per run below the one that `tensorboard --logdir` is given.

A scalar per metric and round, with the round as its step and its time; evaluations a second time, as by-local-steps/<metric>
with the local steps until then, where these are counted.
"""

from typing import Any

from fedsuite.errors import InputError
from fedsuite.export.formats import Output, package
from fedsuite.export.points import Fed, Point
from fedsuite.history import Runs
from fedsuite.storage.deleting import delete_file
from fedsuite.storage.files import telling

BY_STEPS = "by-local-steps"
_FILES = "events.out.tfevents.*"
_OURS = ".fedsuite"  # how those end that are written here


class EventFiles:
    """One event file per run."""

    def __init__(self, runs: Runs, output: Output) -> None:
        folder = output.needed("tensorboard")
        writer = package("tensorboard.summary.writer.event_file_writer")
        self._events = package("tensorboard.compat.proto.event_pb2")
        self._summaries = package("tensorboard.compat.proto.summary_pb2")
        self.folders = {run.name: folder / run.name for run in runs.runs}
        there = [file for path in self.folders.values() for file in sorted(path.glob(_FILES))]
        for file in there:
            if file.suffix != _OURS:
                raise InputError(
                    f"{file}: of another program, and TensorBoard would mix them up; name another folder"
                )
            if not output.overwrite:
                raise InputError(
                    f"{file}: is there already; replace it with --overwrite, or name another folder"
                )
        self._fed = Fed()
        self._writers: dict[str, Any] = {}
        for file in there:
            delete_file(file)
        for name, path in self.folders.items():
            with telling(path):
                path.mkdir(parents=True, exist_ok=True)
                self._writers[name] = writer.EventFileWriter(str(path), filename_suffix=_OURS)

    def update(self, runs: Runs) -> None:
        for run, point in self._fed.new(runs):
            self._writers[run.name].add_event(self._event(point, point.round, point.metrics))
            known = run.metrics.is_evaluation
            scores = {f"{BY_STEPS}/{k}": v for k, v in point.metrics.items() if known(k)}
            if point.local_steps is not None and scores:
                event = self._event(point, point.local_steps, scores)
                self._writers[run.name].add_event(event)
        for writer in self._writers.values():
            writer.flush()

    def close(self, runs: Runs) -> None:
        for writer in self._writers.values():
            writer.close()

    def _event(self, point: Point, step: int, scalars: Any) -> Any:
        value = self._summaries.Summary.Value
        summary = self._summaries.Summary(
            value=[value(tag=name, simple_value=number) for name, number in scalars.items()]
        )
        return self._events.Event(wall_time=point.time_s, step=step, summary=summary)
