"""`fedsuite sweep --optuna N`: of a sweep's combinations the N that a sampler asks for, the bad ones ended early.

Sampler: tree-structured Parzen estimators (Bergstra et al. 2011); pruner: the median rule (Golovin et al. 2017), both of
optuna. A trial is a combination, its value the best of the sweep's metric, as the mean over seeds; rounds of the first seed
tell the pruner. The sampler is seeded anew for every trial, from the run's seed and the trial's number: what it asks for
depends on the values before alone, and a search that was stopped goes on as if it had not been.

The study is kept in <sweep>/optuna.journal, which optuna's own tools read. A pruned run has ended as stopped, and says why.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from rich.console import Console

from fedsuite.errors import InputError, RunFailed
from fedsuite.history import Kind, OnEvent, kind_of, load_run
from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder, variant_of
from fedsuite.storage.files import write_atomically
from simulations.experiments.plan import Experiment
from simulations.experiments.sweep import Sweep

STUDY = "optuna.journal"
PRUNED = "pruned by optuna"
STARTUP, FIRST_ROUND = 4, 2  # trials that are never pruned; the first round after which one may be
AGAIN = 20  # known combinations in a row, after which one is drawn from the others
Play = Callable[[str, int, OnEvent], None]  # label, number of the trial, what gets its events


class Pruned(KeyboardInterrupt):
    """Ends a run from within its events, the way Ctrl-C does on every engine."""


def check_optuna(sweep: Sweep | None) -> None:
    """InputError if a sweep needs optuna and it is not installed."""
    if sweep is not None and sweep.trials:
        _optuna()


def search(experiment: Experiment, play: Play, console: Console) -> None:
    """Try combinations until as many as wanted have been; InputError if the study in the folder is none of this sweep."""
    found = _Search(experiment, play, console)
    while len(found.tried) < experiment.tries:
        found.next()


def add_pruned(experiment: Experiment) -> None:
    """Say in results.md which runs were ended early."""
    lines = [
        f"* {label}: {error}" for label, error in _ended_early(experiment.plans) if PRUNED in error
    ]
    file = RunFolder(experiment.folder).results
    if lines:
        text = file.read_text(encoding="utf-8").rstrip("\n")
        write_atomically(file, "\n".join([text, "", "Ended early:", "", *lines, ""]).encode())


def _ended_early(plans: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for label, plan in plans.items():
        if plan.folder.status_file.is_file():
            status = plan.folder.status()
            yield label, str(status.get("error", "")) if status.get("status") == "stopped" else ""


def _optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError(
            "--optuna: the package optuna is not installed; pip install 'fedsuite[optuna]', or leave the option out to run "
            "all combinations"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@dataclass
class _Search:
    """A study and the runs that its trials stand for. tried: combinations, and the value of each if it has one."""

    experiment: Experiment
    play: Play
    console: Console
    tried: dict[str, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.optuna = _optuna()
        states = self.optuna.trial.TrialState
        self.complete, self.pruned, self.failed = states.COMPLETE, states.PRUNED, states.FAIL
        for trial in self.study.get_trials(deepcopy=False):
            if trial.state.is_finished() and (name := self._name(trial.params)):
                value = trial.value if trial.state is self.complete else None
                self.tried.setdefault(name, value)

    @property
    def sweep(self) -> Sweep:
        assert self.experiment.sweep is not None
        return self.experiment.sweep

    @property
    def seed(self) -> int:
        return next(iter(self.experiment.plans.values())).settings.seed

    @cached_property
    def combinations(self) -> dict[str, dict[str, Any]]:
        return dict(self.sweep.combinations())

    @cached_property
    def study(self) -> Any:
        """The study in the sweep's folder, a new one where there is none."""
        file, pruner = (
            self.experiment.folder / STUDY,
            self.optuna.pruners.MedianPruner(STARTUP, FIRST_ROUND),
        )
        journal = self.optuna.storages.journal
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of optuna, about what it calls experimental
                storage = self.optuna.storages.JournalStorage(journal.JournalFileBackend(str(file)))
            return self.optuna.create_study(
                storage=storage, study_name="sweep", load_if_exists=True, pruner=pruner,
                direction="minimize" if self.sweep.lower else "maximize",
            )  # fmt: skip
        except Exception as error:
            raise InputError(
                f"{file}: no study of optuna ({type(error).__name__}: {error}); put it back from a copy, or move it away to "
                "search anew: completed runs are not run again"
            ) from None

    def next(self) -> None:
        """One trial: the one that was under way, or what the sampler asks for."""
        trial = self._under_way() or self._asked()
        name = self._name(trial.params)
        assert name
        if name in self.tried:  # it has a value already, or none for good
            value = self.tried[name]
            state = self.failed if value is None else self.complete
            self.study.tell(trial, value, state)
            return
        try:
            values = list(self._played(trial, name))
        except Pruned as ended:
            self.study.tell(trial, state=self.pruned)
            self._say(f"{name}: {ended}")
            self.tried[name] = None
        except RunFailed as error:
            if not self.tried:
                raise  # nothing works
            self.study.tell(trial, state=self.failed)
            self._say(f"{name}: failed, the search goes on: {error}")
            self.tried[name] = None
        else:
            self.tried[name] = float(np.mean(values))
            self.study.tell(trial, self.tried[name])

    def _played(self, trial: Any, name: str) -> Iterator[float]:
        """Run a combination with every seed; the best value of each run."""
        labels = [label for label in self.experiment.plans if variant_of(label) == name]
        for number, label in enumerate(labels):
            watch = self._watcher(trial, label) if number == 0 else lambda event: None
            try:
                self.play(label, len(self.tried) + 1, watch)
            except Pruned as ended:
                self.experiment.plans[label].folder.end("stopped", str(ended))
                raise
            course = self._course(label)
            yield float(course.values[course.best(self.sweep.lower)])

    def _course(self, label: str) -> Any:
        from fedsuite.reports.rounds_to_target import course_of

        run = load_run(self.experiment.plans[label].folder.path)
        return course_of(run.rounds, run.closing, self.sweep.metric)

    def _watcher(self, trial: Any, label: str) -> OnEvent:
        """Tells the pruner every round but the untrained one, and ends the run if it says so."""
        last = self.experiment.plans[label].settings.num_rounds
        told = set(self.study.trials[trial.number].intermediate_values)

        def watch(event: Mapping[str, Any]) -> None:
            if kind_of(event) is not Kind.ROUND or (course := self._course(label)) is None:
                return
            for round, value in zip(course.rounds.tolist(), course.values.tolist(), strict=True):
                if round and round not in told:
                    told.add(round)
                    trial.report(value, round)
            round = int(event["round"])
            if round in told and round < last and trial.should_prune():
                raise Pruned(
                    f"{PRUNED} after round {round}: {self.sweep.metric} {course.values[-1]:.4g} is worse than the median of "
                    "the combinations before"
                )

        return watch

    def _under_way(self) -> Any:
        """The trial in which the search was stopped, if it was in one."""
        running = self.optuna.trial.TrialState.RUNNING
        for frozen in self.study.get_trials(deepcopy=False, states=[running]):
            if self._name(frozen.params):
                return self.optuna.trial.Trial(self.study, frozen._trial_id)
            self.study.tell(frozen.number, state=self.failed)
        return None

    def _asked(self) -> Any:
        """A new trial, its combination chosen."""
        trials = self.study.get_trials(deepcopy=False)
        number = len(trials)
        rng = rng_for(self.seed, "optuna", number)
        names = [self._name(t.params) for t in trials]
        if len(names) > AGAIN and set(names[-AGAIN:]) <= set(names[:-AGAIN]):
            untried = sorted(self.combinations.keys() - self.tried.keys())
            chosen = self.combinations[untried[int(rng.integers(len(untried)))]]
            self.study.enqueue_trial(dict(chosen))
        self.study.sampler = self.optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
        trial = self.study.ask()
        for key, values in self.sweep.vary.items():
            trial.suggest_categorical(key, list(values))
        return trial

    def _name(self, values: Mapping[str, Any]) -> str:
        """The combination of these values, "" if it has none."""
        return next((name for name, own in self.combinations.items() if own == dict(values)), "")

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)
