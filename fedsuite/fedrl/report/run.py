"""What a finished FedRL run leaves beside its history.

<run>/results.md     scores of the best round's weights in the test, with and without noise; how far training had come;
                     what each party released and what the noise on it guarantees
<run>/learning.png   score and average reward in the validations, over gradient steps

Names of rows are the paper's: FedRL-1 is tested without noise, FedRL-2 with noise; both are trained with it (Zhuo
et al. 2019 name them twice, in opposite senses; this is the sense of their explanation of table 1). The
other methods have rows with noise too, because noise alone frees a greedy policy from its loops.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.metrics import metrics_of
from fedsuite.history import RunFrames, load_runs
from fedsuite.history.tidy import last_values
from fedsuite.privacy.accounting import PrivacyStatement
from fedsuite.reports.outcomes import Outcome, cells, column_of, grouped, rounds_of
from fedsuite.reports.plots import MOST_CURVES, learning_curves
from fedsuite.reports.tables import markdown_table
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import read_table

# In the order of the paper's table 1, with the rows that it lacks.
NAMES = {
    "random": "random", "fcn-alpha": "FCN-alpha", "dqn-alpha": "DQN-alpha", "dqn-beta": "DQN-beta", "fedrl": "FedRL",
    "fcn-full": "FCN-full", "dqn-full": "DQN-full", "oracle": "oracle",
}  # fmt: skip
CHANCE = (
    "No chance level here: it is the score of random moves on the same data, a run of its own. Play the configuration "
    "with federation.method=random and num-rounds=0, and report both runs together."
)
LIMIT = "train.loss-limit"
TESTS = {"test.": False, "test-noisy.": True}  # prefix of metrics -> with noise

NOTES: Mapping[str, str] = read_table(__file__, "worlds.json")


@dataclass(frozen=True)
class FedRLOutcome(Outcome):
    """A test of a finished run, with noise or without. Metrics: those of the test.

    best-round: whose weights were tested, 0 if none was validated; gradient-steps: behind these weights; released-ROLE:
    Q-vectors that left a party.
    """

    config: FedRLConfig
    noisy: bool

    @property
    def place(self) -> tuple[int, bool]:
        """Where its row stands among others."""
        return list(NAMES).index(self.config.federation.method), self.noisy

    @property
    def released(self) -> dict[str, int]:
        """Q-vectors that left each party."""
        return {
            role: int(self.metrics[f"released-{role}"]) for role in self.config.federation.roles
        }

    @property
    def privacy(self) -> PrivacyStatement | None:
        """What is guaranteed; None where nothing is exchanged."""
        config = self.config
        if len(config.federation.roles) == 1:
            return None
        return PrivacyStatement(
            bound=config.privacy.q_clip,
            sigma=config.privacy.noise_sigma,
            releases=self.released,
            delta=config.privacy.delta,
            alternating=config.published.rules.mlp_updates == "alternating",
            noise_probability=config.published.rules.noise_probability,
            behaviour_noise=config.privacy.behaviour_noise,
            evaluation_noise=config.privacy.test_noise == "noisy",
        )


def outcomes_of(
    config: FedRLConfig, run_dir: Path, run: str = "", frames: RunFrames | None = None
) -> list[FedRLOutcome]:
    """The tests of a finished run, read unless its frames are at hand.

    Noise that changes nothing by design is no test of its own.
    Its rounds have a column gradient-steps: up to and including each round.
    """
    frames = frames or load_runs(run_dir)
    final, rounds = last_values(frames.closing), frames.rounds
    updates = rounds.reindex(columns=["train.updates"])["train.updates"].fillna(0.0)
    frames = frames.replaced(rounds=rounds.assign(**{"gradient-steps": updates.cumsum()}))
    best = int(final["best-round"])
    ended: dict[str, float] = {
        "best-round": best,
        "gradient-steps": int(updates[rounds["round"] <= best].sum()),
        **{
            f"released-{r}": int(final[f"released.{p}"])
            for p, r in enumerate(config.federation.roles)
        },
    }
    tests = {
        noisy: {k.removeprefix(prefix): v for k, v in final.items() if k.startswith(prefix)}
        for prefix, noisy in TESTS.items()
    }
    tests = {noisy: metrics for noisy, metrics in tests.items() if metrics}
    if not config.federation.trains or config.privacy.noise_sigma == 0:
        tests = {False: next(iter(tests.values()))}
    found = []
    for noisy, metrics in tests.items():
        facts = {"seed": config.seed, "fold": config.data.fold, "test-noise": noisy}
        name = row_name(config, noisy)
        found.append(FedRLOutcome(name, run, facts, metrics | ended, frames, config, noisy))
    return found


def row_name(config: FedRLConfig, noisy: bool) -> str:
    """The paper's name of a method tested with or without noise."""
    name = NAMES[config.federation.method]
    if config.federation.method == "fedrl":
        return f"{name} without noise" if config.privacy.noise_sigma == 0 else f"{name}-{1 + noisy}"
    return f"{name} + noise" if noisy else name


def write_results(config: FedRLConfig, run_dir: Path) -> None:
    """Table and drawing of a run that has just completed, from its folder alone."""
    tests = outcomes_of(config, run_dir)
    columns = [column_of(row) for row in metrics_of(config).shown("run")]
    rows = [{"test": o.name} | cells([o], columns) for o in tests]
    lines = [markdown_table(rows), NOTES[config.world.kind], "", *_course(tests[0])]
    if (privacy := tests[0].privacy) is not None:
        lines += ["", "What the noise guarantees:", "", *(f"- {line}" for line in privacy.text)]
    RunFolder(run_dir).results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw_validations(tests[:1], run_dir / "learning.png")


def _course(outcome: FedRLOutcome) -> list[str]:
    """How far training had come, and what left the parties, as a list."""
    config, lines = outcome.config, []
    if best := int(outcome.metrics["best-round"]):
        total = int(outcome.frames.rounds["gradient-steps"].max())
        lines.append(
            f"- Tested: the weights of round {best} of {config.num_rounds}, the best in validation, "
            f"after {outcome.metrics['gradient-steps']:,} of {total:,} gradient steps."
        )
    elif config.federation.trains:
        lines.append(f"- Tested: the last weights; none of {config.num_rounds} rounds was validated.")  # fmt: skip
    if config.federation.trains:
        lines.append(f"- {CHANCE}")
    lines += [f"- {line}" for line in run_away(outcome)]
    if len(config.federation.roles) > 1:
        counts = ", ".join(f"{role} {count:,}" for role, count in outcome.released.items())
        lines.append(f"- Q-vectors released in training and evaluation: {counts}.")
    return lines


def run_away(outcome: FedRLOutcome) -> list[str]:
    """One line if Q-values left what rewards can add up to, so that the scores are of a training that diverged."""
    rounds = outcome.frames.rounds
    if LIMIT not in rounds:
        return []
    away = rounds[rounds["train.loss"] > rounds[LIMIT]]
    if away.empty:
        return []
    largest = away["train.loss"].max()
    (number, limit) = away.loc[away["train.loss"] == largest, ["round", LIMIT]].to_numpy()[0]
    return [
        f"**Diverged**: the mean loss a record was {largest:.3g} in round {number:.0f}, where two returns of the rewards "
        f"seen differ by {limit:.3g} at most (squared); so in {len(away)} of {len(rounds) - 1} rounds. Try another seed, "
        "or a larger learning.target-every."
    ]


def draw_validations(
    outcomes: Sequence[FedRLOutcome],
    path: Path,
    by_round: bool = False,
    levels: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Score and reward over gradient steps (or rounds), unless there are none or too many lines for one drawing."""
    score, reward = metrics_of(outcomes[0].config).curves
    key = f"valid.{score.name}"
    curves = {
        name: rounds.assign(score=score.scale * rounds[key])
        for name, rounds in rounds_of(grouped(outcomes)).items()
        if key in rounds
    }
    if not 0 < len(curves) <= MOST_CURVES:
        return
    title = f"{score.curve} in validation{score.percent}"
    x, label = ("round", "round") if by_round else ("gradient-steps", "gradient steps")
    panels = {"score": title, f"valid.{reward.name}": reward.curve}
    learning_curves(curves, panels, path, x=x, x_label=label, levels=levels)
