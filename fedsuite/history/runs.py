"""Finished and running runs as objects: what a run was, and frames of what happened in it.

run = load_run("runs/quick")                 # one run
runs = load_runs(["runs/methods", "other"])  # runs, experiments, folders of either
runs.about, runs.rounds, runs.evaluations    # one line per run; the frames of fedsuite.history.frames
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsuite.errors import InputError, suggestion
from fedsuite.history.experiments import (
    Place,
    folder_of,
    has_begun,
    place_of,
    run_folders,
    unique_names,
)
from fedsuite.history.frames import RunFrames
from fedsuite.history.metrics import metrics_of
from fedsuite.history.paired import Difference, paired
from fedsuite.roster.members import ROSTER, Roster, read_roster
from fedsuite.runs.folder import RunFolder, variant_of
from fedsuite.settings.metrics import Metrics
from fedsuite.settings.values import shown
from fedsuite.storage.files import read_object, sha256_of

if TYPE_CHECKING:
    import pandas as pd

ENDED = ("completed", "failed", "stopped")
_OF_THE_PLACE = ("data.cache-dir",)  # settings of data that do not say what they are


class Run(RunFrames):
    """One run. folder: its full path; name: experiment/variant/seed-0, or its folder's."""

    def __init__(self, place: Place, name: str = "") -> None:
        self.folder, self.place, self.name = place.folder, place, name or place.name
        super().__init__([(self.name, place.folder)])

    @property
    def experiment(self) -> str:
        """The experiment that it belongs to; "" for a run by itself."""
        return self.place.experiment

    @property
    def variant(self) -> str:
        """Its variant in the experiment; "" where only seeds differ."""
        return variant_of(self.place.label) if self.place.label else ""

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """run.json: status, error, versions, started and ended (UTC)."""
        return RunFolder(self.folder).status()

    @property
    def status(self) -> str:
        """As recorded: running, completed, failed, stopped; unknown before the run has begun."""
        return str(self.record.get("status", "unknown"))

    @property
    def has_ended(self) -> bool:
        """Whether run.json says so; of a run that was killed it does not."""
        return self.status in ENDED

    @property
    def versions(self) -> Mapping[str, str]:
        """Package -> version that the run was made with; "2.13.0, then 2.15.0" where a resume had another."""
        return dict(self.record.get("versions", {}))

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """All settings, flat; {} where the folder does not have them."""
        file = RunFolder(self.folder).config
        return read_object(file, "the settings of a run", "put it back") if file.is_file() else {}

    @property
    def system(self) -> str:
        return str(self.config.get("system", ""))

    @cached_property
    def metrics(self) -> Metrics:
        """The table of its metrics: titles, units, whether less is better."""
        return metrics_of(self.folder)

    @property
    def seed(self) -> int | None:
        return self.config.get("seed")

    @cached_property
    def roster(self) -> Roster | None:
        """Who takes part; None where the folder does not say."""
        file = self.folder / ROSTER
        return read_roster(file) if file.is_file() else None

    @cached_property
    def data(self) -> str:
        """Fingerprint of the data, 16 hex digits; "" without a roster.

        Of the roster (who takes part, with how many examples, vocabulary, digests where the system has them) and of the
        [data] settings, of paths their last part. Runs on the same files have the same; it opens no data, so that files
        changed in place may go unseen.
        """
        if self.roster is None:
            return ""
        settings = {k: v for k, v in self.config.items() if k.startswith("data.")}
        told = {k: _placeless(v) for k, v in settings.items() if k not in _OF_THE_PLACE}
        return sha256_of(json.dumps([self.roster.digest, told], sort_keys=True).encode())[:16]

    @property
    def final(self) -> dict[str, float]:
        """The last value of every metric, the most recently measured ones first."""
        from fedsuite.history.tidy import last_values

        return last_values(self.rounds, self.closing)

    def _repr_html_(self) -> str:
        """In a notebook: how it ended, and its last scores, in % where they are shares."""
        import pandas as pd

        about = {"run": self.name, "system": self.system, "status": self.status}
        for name, value in self.final.items():
            if self.metrics.is_evaluation(name):
                row = self.metrics.row(name)
                about[f"{name}{row.percent}"] = f"{value * row.scale:.4g}"
        return str(pd.Series(about).to_frame().to_html(header=False))

    def about(self) -> dict[str, Any]:
        """Its line of `Runs.about`; started and ended are UTC, data is the fingerprint."""
        versions = {f"version.{name}": found for name, found in self.versions.items()}
        told = {key: str(self.record.get(key, "")) for key in ("started", "ended", "error")}
        return {
            "run": self.name, "experiment": self.experiment, "variant": self.variant, "seed": self.seed,
            "system": self.system, "status": self.status, "num-rounds": self.config.get("num-rounds"),
            "clients": len(self.roster) if self.roster else None, **told, "data": self.data,
            "folder": str(self.folder), **versions,
        }  # fmt: skip


class Runs(RunFrames):
    """Several runs; frames are theirs together, with names that are unique among them in the column run."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = tuple(runs)
        super().__init__([(run.name, run.folder) for run in runs])

    def __len__(self) -> int:
        return len(self.runs)

    def again(self) -> "Runs":
        """The same runs with what has been written since."""
        return Runs([Run(run.place, run.name) for run in self.runs])

    def look(self) -> "Runs":
        """Itself, with run.json of every run read now: then frames, which are read later, lack nothing of an ended run."""
        for run in self.runs:
            _ = run.record
        return self

    def compare(self, first: str, second: str, metric: str) -> Difference:
        """How much higher the last value of a metric is in the first variant's runs, paired by seed.

        InputError where a variant has no run here, or none of its runs recorded the metric.
        """
        values = [self._last(variant, metric) for variant in (first, second)]
        return paired(*values)

    def _last(self, variant: str, metric: str) -> dict[Hashable, float]:
        """Seed (and fold, if the runs have one) -> the last value of a metric."""
        runs = [run for run in self.runs if run.variant == variant]
        if not runs:
            known = dict.fromkeys(run.variant for run in self.runs)
            raise InputError(
                f"no run of the variant {shown(variant)}; {suggestion(variant, [*known])}"
            )
        found: dict[Hashable, float] = {}
        names: dict[str, None] = {}
        for run in runs:
            names |= dict.fromkeys(final := run.final)
            if metric in final:
                found[run.seed, run.config.get("data.fold")] = final[metric]
        if not found:
            raise InputError(
                f"{variant}: no run recorded {shown(metric)}; {suggestion(metric, [*names])}"
            )
        return found

    @cached_property
    def about(self) -> "pd.DataFrame":
        """One line per run: see `Run.about`."""
        import pandas as pd

        return pd.DataFrame([run.about() for run in self.runs])

    @cached_property
    def final(self) -> "pd.DataFrame":
        """run, variant, seed; the last value of every metric. One line per run."""
        import pandas as pd

        heads = [{"run": r.name, "variant": r.variant, "seed": r.seed} for r in self.runs]
        return pd.DataFrame([head | r.final for head, r in zip(heads, self.runs, strict=True)])

    def _repr_html_(self) -> str:
        """In a notebook: a line per run."""
        return str(self.final.to_html(index=False))


def load_run(folder: Path | str) -> Run:
    """The run in `folder`, or of this name inside runs/; InputError if it is none."""
    path = folder_of(folder)
    if not has_begun(path):
        found = run_folders(path)
        raise InputError(
            f"{path}: {len(found)} runs in this folder, expected one run; give one of them, {found[0]} say, or use load_runs"
        )
    return Run(place_of(path))


def load_runs(folders: Path | str | Sequence[Path | str]) -> Runs:
    """A run, the runs of an experiment, all runs in a folder, or those of a list of these; each once.

    A name that is no path is looked for inside runs/.
    """
    given = [folders] if isinstance(folders, Path | str) else list(folders)
    distinct: dict[Path, Place] = {}
    for run in (run for entry in given for run in run_folders(folder_of(entry))):
        distinct.setdefault(run.resolve(), place_of(run))
    places = list(distinct.values())
    return Runs([Run(*pair) for pair in zip(places, unique_names(places), strict=True)])


def _placeless(value: object) -> object:
    """Of an absolute path its last part."""
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value
