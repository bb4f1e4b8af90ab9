"""Runs in Weights & Biases, in MLflow and in Trackio, through these packages' own interfaces.

All get a run's settings, versions and data fingerprint, every metric by round, and how the run ended. Where they send it is
their own configuration (`wandb login`, WANDB_MODE, MLFLOW_TRACKING_URI, TRACKIO_DIR); with -o FOLDER the files of the first
two go there, MLflow's into a database `mlflow.db`. Every export makes new runs.
"""

from collections.abc import Mapping
from typing import Any

from fedsuite.errors import InputError
from fedsuite.export.formats import Output, package
from fedsuite.export.points import Fed
from fedsuite.history import Run, Runs

PROJECT = "fedsuite"
DATABASE = "mlflow.db"
_ENDED = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}  # in MLflow's words
_BATCH = 100  # settings or metrics that MLflow takes at once


class WandbExport:
    """One wandb run per run, in the project called after the experiment; group: the variant."""

    def __init__(self, runs: Runs, output: Output) -> None:
        wandb = package("wandb")
        self._fed = Fed()
        folder = output.made()
        place = {"dir": str(folder)} if folder else {}
        self._runs = {
            run.name: wandb.init(
                project=run.experiment or PROJECT, name=run.name, group=run.variant or None,
                job_type=run.system, config=facts_of(run), reinit="create_new", **place,
            )
            for run in runs.runs
        }  # fmt: skip

    def update(self, runs: Runs) -> None:
        for run, point in self._fed.new(runs):
            self._runs[run.name].log(dict(point.metrics), step=point.round)

    def close(self, runs: Runs) -> None:
        for run in runs.runs:
            self._runs[run.name].finish(exit_code=int(run.status in ("failed", "stopped")))


class TrackioExport:
    """One Trackio run per run, in the project called after the experiment; group: the variant."""

    def __init__(self, runs: Runs, output: Output) -> None:
        if output.folder is not None:
            raise InputError(
                "--to trackio: it keeps its files itself; leave -o out, or set the environment variable TRACKIO_DIR"
            )
        trackio = package("trackio")
        self._fed = Fed()
        self._runs = {
            run.name: trackio.init(
                project=run.experiment or PROJECT, name=run.name, group=run.variant or None,
                config=dict(facts_of(run)), embed=False,
            )
            for run in runs.runs
        }  # fmt: skip

    def update(self, runs: Runs) -> None:
        for run, point in self._fed.new(runs):
            self._runs[run.name].log(dict(point.metrics), step=point.round)

    def close(self, runs: Runs) -> None:
        for run in runs.runs:
            self._runs[run.name].finish()


class MLflowExport:
    """One MLflow run per run, in the experiment of its name."""

    def __init__(self, runs: Runs, output: Output) -> None:
        mlflow = package("mlflow")
        folder = output.made()
        uri = f"sqlite:///{folder / DATABASE}" if folder else None
        self._artifacts = (folder / "artifacts").as_uri() if folder else None
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        self._entities = package("mlflow.entities")
        self._fed = Fed()
        self._ids: dict[str, str] = {}
        for run in runs.runs:
            experiment = self._experiment(run.experiment or PROJECT)
            tags = {"system": run.system, "variant": run.variant}
            made = self._client.create_run(experiment, run_name=run.name, tags=tags)
            self._ids[run.name] = made.info.run_id
            params = [self._entities.Param(k, str(v)) for k, v in facts_of(run).items()]
            for begin in range(0, len(params), _BATCH):
                batch = params[begin : begin + _BATCH]
                self._client.log_batch(made.info.run_id, params=batch)

    def _experiment(self, name: str) -> str:
        known = self._client.get_experiment_by_name(name)
        if known:
            return str(known.experiment_id)
        return str(self._client.create_experiment(name, artifact_location=self._artifacts))

    def update(self, runs: Runs) -> None:
        for run, point in self._fed.new(runs):
            at = round(1000 * point.time_s), point.round
            metrics = [
                self._entities.Metric(name, value, *at) for name, value in point.metrics.items()
            ]
            for begin in range(0, len(metrics), _BATCH):
                batch = metrics[begin : begin + _BATCH]
                self._client.log_batch(self._ids[run.name], metrics=batch)

    def close(self, runs: Runs) -> None:
        for run in runs.runs:
            if run.status in _ENDED:
                self._client.set_terminated(self._ids[run.name], _ENDED[run.status])


def facts_of(run: Run) -> Mapping[str, Any]:
    """What a tracker keeps of a run beside its metrics."""
    versions = {f"version.{name}": version for name, version in run.versions.items()}
    return {**run.config, **versions, "data-fingerprint": run.data}
