"""Settings of a FedRL run, and the rules that the settings "corrected" and "published-code" stand for.

Symbols of Zhuo et al. (2019): gamma discount, sigma noise, H history length, T_m step limit, epsilon
exploration. The official code departs from the paper in ways that change results; each departure is a key
of its own whose value "auto" (-1 for numbers) follows `setting`.
"""

from dataclasses import dataclass

from fedsuite.config import RunSettings
from fedsuite.config import setting as option  # one key is itself called setting

METHODS = (
    "fedrl", "dqn-alpha", "dqn-beta", "dqn-full", "fcn-alpha", "fcn-full", "random", "oracle",
)  # fmt: skip
WORLDS = ("gridworld", "text2action")
CORPORA = ("auto", "generated", "win2k", "cooking", "wikihow")


@dataclass(frozen=True)
class FedRLConfig(RunSettings):
    """Keys of a FedRL run; simulations/fedrl/*.toml name those that an experiment changes."""

    system: str = option("fedrl", "system to run")
    method: str = option("fedrl", "who learns, and from what", choices=METHODS)
    setting: str = option(
        "corrected",
        "what the switches left on auto follow",
        choices=("corrected", "published-code"),
    )
    parties: int = option(2, "parties of fedrl; the third sees where both agents stand", ge=2, le=3)
    world: str = option("gridworld", "the world", choices=WORLDS)
    data_dir: str = option(
        "", "folder of frl_grid_*.npz or t2a_*.json.gz; empty = generated data", path=True
    )
    generated_seed: int = option(0, "seed of generated maps and texts", ge=0)
    cache_dir: str = option("data/cache", "folder of converted data", may_change=True, path=True)
    device: str = option("cpu", "where parties compute", choices=("cpu", "cuda", "auto"))

    # --- Grid-World ------------------------------------------------------------------------------
    grid_size: int = option(8, "N: cells a side, ring of obstacles included", ge=5, le=128)
    maps: int = option(8000, "generated maps; 80 % train, 10 % validation, 10 % test", ge=20)
    history: int = option(
        2, "H: observations that an agent remembers, the present one included", ge=1, le=64
    )
    step_limit: int = option(
        0, "T_m: steps of an episode; 0 = twice the longest path of the maps", ge=0
    )
    step_reward: float = option(-1.0, "reward of a move, for each agent")
    obstacle_reward: float = option(-10.0, "reward of running into an obstacle, for each agent")
    meeting_reward: float = option(50.0, "reward of meeting, once")
    windows: str = option(
        "auto", "sides of alpha's and beta's windows: paper = 3 and 5, code = 5 and 3",
        choices=("auto", "paper", "code"),
    )  # fmt: skip
    kernels: str = option(
        "window", "side of the filters: the window's, or 3", choices=("window", "3x3")
    )
    filters: int = option(32, "filters of a convolution (of each height in Text2Action)", ge=1)
    distance: str = option(
        "auto", "how far the agents are apart", choices=("auto", "manhattan", "anti-diagonal")
    )
    starts: str = option(
        "auto", "start cells: as stored, or one down and right as in the code",
        choices=("auto", "exact", "shifted"),
    )  # fmt: skip
    first_frame: str = option(
        "auto", "whether replay holds an episode's first observation",
        choices=("auto", "stored", "missing"),
    )  # fmt: skip
    timeouts: str = option(
        "auto",
        "target of a step that ran out of time",
        choices=("auto", "bootstrapped", "terminal"),
    )

    # --- Text2Action -----------------------------------------------------------------------------
    corpus: str = option(
        "auto", "texts; auto = generated, or win2k where there is a data-dir", choices=CORPORA
    )
    task: str = option(
        "names", "words to choose: action names, or arguments", choices=("names", "arguments")
    )
    fold: int = option(0, "which of the five folds is held out", ge=0, le=4)
    selection: str = option(
        "auto", "test-fold: choose the round on the next fold, test on this one; validation: both on this one",
        choices=("auto", "test-fold", "validation"),
    )  # fmt: skip
    word_vectors: str = option(
        "", "word2vec or GloVe file; empty = trained on the texts", path=True
    )
    word_vector_size: int = option(50, "K_1: components of a word vector trained here", ge=2)
    tag_size: int = option(50, "K_2: components of the part-of-speech embedding", ge=2)
    max_words: int = option(
        0, "N_w: words of a text that are read; 0 = 500 for names, 100 for arguments", ge=0
    )
    text_reward: float = option(50.0, "unit of reward", gt=0)
    last_word_bonus: float = option(2.0, "reward added on the last word, as in the code")
    exclusive_rewards: str = option(
        "auto", "arguments that exclude each other: neglecting one may be right, or never is (code)",
        choices=("auto", "full", "selecting-only"),
    )  # fmt: skip

    # --- learning --------------------------------------------------------------------------------
    discount: float = option(0.9, "gamma", ge=0, lt=1)
    learning_rate: float = option(1e-3, "of Adam", gt=0)
    batch_size: int = option(32, "B: records of a minibatch", ge=1)
    memory: int = option(100_000, "records that replay holds", ge=100)
    reward_quota: float = option(
        0.9, "share of a minibatch from rewards >= 0 (> 0 in Text2Action); 0 = uniform", ge=0, lt=1
    )
    epsilon_last: float = option(0.1, "exploration after it has fallen from 1", ge=0, le=1)
    epsilon_steps: int = option(1000, "environment steps over which exploration falls", ge=1)
    target_every: int = option(5, "environment steps between refreshes of target networks", ge=1)
    target_refresh: str = option(
        "auto", "published: not FedRL's networks, not DQN-full's second convolution",
        choices=("auto", "all", "published"),
    )  # fmt: skip
    steps_per_update: int = option(1, "environment steps per gradient step", ge=1)
    round_length: int = option(1000, "environment steps, or episodes, of a round", ge=1)
    round_unit: str = option("steps", "what round-length counts", choices=("steps", "episodes"))
    patience: int = option(
        0, "validations without improvement after which training ends; 0 = never", ge=0
    )
    evaluation_episodes: int = option(
        800, "Grid-World: episodes of a validation or test, around again where maps are fewer", ge=1
    )

    # --- what is exchanged -----------------------------------------------------------------------
    exchange_every: int = option(
        1,
        "K: parallel episodes, and minibatches, in one exchange; 1 = the paper's algorithms",
        ge=1,
    )
    mlp_updates: str = option(
        "auto", "alternating: every party updates the shared MLP in turn (paper); joint: once (code)",
        choices=("auto", "alternating", "joint"),
    )  # fmt: skip
    mlp_hidden: int = option(
        0, "hidden units of the shared MLP; 0 = two for each joint action", ge=0
    )
    noise_sigma: float = option(1.0, "sigma: standard deviation of the noise on Q-values", ge=0)
    noise_probability: float = option(
        -1.0,
        "share of minibatches with noise; -1 = auto (always; published-code half)",
        ge=-1,
        le=1,
    )
    behaviour_noise: bool = option(True, "noise on the Q-values that choose actions in training")
    test_noise: str = option(
        "both",
        "noise on Q-values in tests; noisy: in validations too, so that nothing leaves a party without noise",
        choices=("both", "none", "noisy"),
    )
    q_clip: float = option(
        0.0, "L2 norm to which Q-values are clipped before noise; 0 = no clipping", ge=0
    )
    privacy_delta: float = option(1e-5, "delta of the privacy statement", gt=0, lt=1)

    @property
    def rules(self) -> "Rules":
        """The switches with "auto" resolved."""
        published = self.setting == "published-code"

        def resolved(value: str, corrected: str, as_published: str) -> str:
            return value if value != "auto" else as_published if published else corrected

        return Rules(
            windows=resolved(self.windows, "paper", "code"),
            distance=resolved(self.distance, "manhattan", "anti-diagonal"),
            starts=resolved(self.starts, "exact", "shifted"),
            first_frame=resolved(self.first_frame, "stored", "missing"),
            timeouts=resolved(self.timeouts, "bootstrapped", "terminal"),
            selection=resolved(self.selection, "test-fold", "validation"),
            exclusive_rewards=resolved(self.exclusive_rewards, "full", "selecting-only"),
            target_refresh=resolved(self.target_refresh, "all", "published"),
            mlp_updates=resolved(self.mlp_updates, "alternating", "joint"),
            noise_probability=(
                self.noise_probability if self.noise_probability >= 0 else 0.5 if published else 1.0
            ),
        )

    @property
    def text_source(self) -> str:
        """The corpus with "auto" resolved."""
        if self.corpus != "auto":
            return self.corpus
        return "win2k" if self.data_dir else "generated"

    @property
    def roles(self) -> tuple[str, ...]:
        """Role of every party, the rewarded one first."""
        if self.method == "fedrl":
            return ("alpha", "beta", "gamma")[: self.parties]
        if self.method in ("random", "oracle"):
            return ("alpha",)
        return (self.method.split("-")[1],)


@dataclass(frozen=True)
class Rules:
    """The departures of the official code from the paper, each one way or the other; see FedRLConfig's help texts."""

    windows: str
    distance: str
    starts: str
    first_frame: str
    timeouts: str
    selection: str
    exclusive_rewards: str
    target_refresh: str
    mlp_updates: str
    noise_probability: float

    @property
    def window_sides(self) -> tuple[int, int]:
        """Sides of alpha's and beta's windows, cells."""
        return (3, 5) if self.windows == "paper" else (5, 3)
