"""What a finished FedRL run leaves beside its history.

<run>/results.md     scores of the best round's weights in the test, with and without noise; how far training had come;
                     what each party released and what the noise on it guarantees
<run>/learning.png   score and average reward in the validations, over gradient steps

Names of rows are the paper's: FedRL-1 is tested without noise, FedRL-2 with noise; both are trained with it (Zhuo
et al. 2019 name them twice, in opposite senses; this is the sense of their explanation of table 1). The
other methods have rows with noise too, because noise alone frees a greedy policy from its loops.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.history import load_runs
from fedsuite.privacy.accounting import PrivacyStatement
from fedsuite.report.fedrl import plot_scores
from fedsuite.report.tables import markdown_table
from fedsuite.run_folder import RunFolder

# In the order of the paper's table 1, with the rows that it lacks.
NAMES = {
    "random": "random", "fcn-alpha": "FCN-alpha", "dqn-alpha": "DQN-alpha", "dqn-beta": "DQN-beta", "fedrl": "FedRL",
    "fcn-full": "FCN-full", "dqn-full": "DQN-full", "oracle": "oracle",
}  # fmt: skip
FIXED = ("random", "oracle")  # no Q-values, no training
TESTS = {False: "test", True: "test-noisy"}


@dataclass(frozen=True)
class Measure:
    """A metric of a world's judge and how a table shows it."""

    metric: str
    title: str
    scale: float = 1.0
    digits: int = 2


REWARD = Measure("average-reward", "AvgRwd")
MEASURES: Mapping[str, tuple[Measure, ...]] = {  # the first is the score
    "gridworld": (
        Measure("success-rate", "success (%)", 100, 1),
        REWARD,
        Measure("within-1x", "within 2x optimum (%)", 100, 1),
        Measure("mean-steps", "mean steps"),
    ),
    "text2action": (
        Measure("f1", "F1 (%)", 100, 1),
        REWARD,
        Measure("precision", "precision (%)", 100, 1),
        Measure("recall", "recall (%)", 100, 1),
    ),
}
NOTES = {
    "gridworld": "AvgRwd: sum of an episode's rewards, mean over episodes. Within 2x optimum: met in at most twice the "
    "steps that two agents need on their shortest path. Mean steps: over episodes in which they met.",
    "text2action": "AvgRwd: mean reward of a word. F1, precision and recall: over all words of the held-out fold.",
}


@dataclass(frozen=True)
class Outcome:
    """A finished run: its settings, one line a round, and the metrics of its test."""

    config: FedRLConfig
    rounds: pd.DataFrame
    closing: Mapping[str, float]

    @property
    def tests(self) -> dict[bool, dict[str, float]]:
        """With noise or without -> metrics. Noise that changes nothing by design is no test of its own."""
        found = {
            noisy: {k.removeprefix(f"{prefix}."): v for k, v in self.closing.items() if k.startswith(f"{prefix}.")}
            for noisy, prefix in TESTS.items()
        }  # fmt: skip
        found = {noisy: metrics for noisy, metrics in found.items() if metrics}
        if self.config.method in FIXED or self.config.noise_sigma == 0:
            return {False: next(iter(found.values()))}
        return found

    @property
    def best_round(self) -> int:
        """The round whose weights were tested; 0: none was validated."""
        return int(self.closing["best-round"])

    @property
    def gradient_steps(self) -> "pd.Series[float]":
        """Gradient steps up to and including each round, by row of `rounds`."""
        if "train.updates" not in self.rounds:
            return pd.Series(0.0, index=self.rounds.index)
        return self.rounds["train.updates"].fillna(0.0).cumsum()

    @property
    def best_steps(self) -> int:
        """Gradient steps behind the weights that were tested."""
        upto = self.gradient_steps[self.rounds["round"] <= self.best_round]
        return int(upto.max()) if len(upto) else 0

    @property
    def released(self) -> dict[str, int]:
        """Q-vectors that left each party."""
        roles = enumerate(self.config.roles)
        return {role: int(self.closing[f"released.{p}"]) for p, role in roles}

    @property
    def privacy(self) -> PrivacyStatement | None:
        """What is guaranteed; None where nothing is exchanged."""
        config = self.config
        if len(config.roles) == 1:
            return None
        return PrivacyStatement(
            bound=config.q_clip,
            sigma=config.noise_sigma,
            releases=self.released,
            delta=config.privacy_delta,
            alternating=config.rules.mlp_updates == "alternating",
            noise_probability=config.rules.noise_probability,
            behaviour_noise=config.behaviour_noise,
            evaluation_noise=config.test_noise == "noisy",
        )


def outcome_of(config: FedRLConfig, run_dir: Path) -> Outcome:
    """Read a finished run."""
    frames = load_runs(run_dir)
    last = frames.closing.iloc[-1].drop(["run", "round"])
    return Outcome(config, frames.rounds, {str(k): float(v) for k, v in last.items()})


def row_name(config: FedRLConfig, noisy: bool) -> str:
    """The paper's name of a method tested with or without noise."""
    name = NAMES[config.method]
    if config.method == "fedrl":
        return f"{name} without noise" if config.noise_sigma == 0 else f"{name}-{1 + noisy}"
    return f"{name} + noise" if noisy else name


def shown(measure: Measure, metrics: Mapping[str, float]) -> str:
    """A metric as a table shows it."""
    return f"{measure.scale * metrics[measure.metric]:.{measure.digits}f}"


def write_closing(config: FedRLConfig, run_dir: Path) -> None:
    """Table and drawing of a run that has just completed."""
    outcome = outcome_of(config, run_dir)
    rows = [
        {"test": row_name(config, noisy), **{m.title: shown(m, metrics) for m in MEASURES[config.world]}}
        for noisy, metrics in outcome.tests.items()
    ]  # fmt: skip
    lines = [markdown_table(rows), NOTES[config.world], "", *_course(outcome)]
    if (privacy := outcome.privacy) is not None:
        lines += ["", "What the noise guarantees:", "", *(f"- {line}" for line in privacy.text)]
    RunFolder(run_dir).results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    points = validations(outcome, row_name(config, config.test_noise == "noisy"), False)
    if len(points):
        plot_scores(
            points, run_dir / "learning.png",
            x_label="gradient steps", score_label=score_label(config.world),
        )  # fmt: skip


def _course(outcome: Outcome) -> list[str]:
    """How far training had come, and what left the parties, as a list."""
    config, lines = outcome.config, []
    if outcome.best_round:
        lines.append(
            f"- Tested: the weights of round {outcome.best_round} of {config.num_rounds}, the best in validation, "
            f"after {outcome.best_steps:,} of {int(outcome.gradient_steps.max()):,} gradient steps."
        )
    elif config.method not in FIXED:
        lines.append(f"- Tested: the last weights; none of {config.num_rounds} rounds was validated.")  # fmt: skip
    if len(config.roles) > 1:
        counts = ", ".join(f"{role} {count:,}" for role, count in outcome.released.items())
        lines.append(f"- Q-vectors released in training and evaluation: {counts}.")
    return lines


def score_label(world: str) -> str:
    """Label of the score's axis."""
    return f"{MEASURES[world][0].title.removesuffix(' (%)')} in validation (%)"


def validations(outcome: Outcome, line: str, by_round: bool) -> pd.DataFrame:
    """Columns line, x, score, reward of the rounds that were validated; x: gradient steps, or the round's number."""
    score = MEASURES[outcome.config.world][0]
    key = f"valid.{score.metric}"
    if key not in outcome.rounds:
        return pd.DataFrame(columns=["line", "x", "score", "reward"])
    x = outcome.rounds["round"] if by_round else outcome.gradient_steps
    points = pd.DataFrame(
        {
            "line": line,
            "x": x,
            "score": score.scale * outcome.rounds[key],
            "reward": outcome.rounds[f"valid.{REWARD.metric}"],
        }
    )
    return points.dropna(subset="score")
