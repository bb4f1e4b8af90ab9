"""Settings of a FedRL run.

Symbols of Zhuo et al. (2019): gamma discount, sigma noise, H history length, T_m step limit, epsilon
exploration. Where the official code departs from the paper, fedsuite/fedrl/published_settings.py has a key.
"""

from dataclasses import dataclass

from fedsuite.fedrl.published_settings import PublishedSettings
from fedsuite.settings.config import RunSettings, section, setting
from fedsuite.settings.metrics import own_setting

METHODS = (
    "fedrl", "dqn-alpha", "dqn-beta", "dqn-full", "fcn-alpha", "fcn-full", "random", "oracle",
)  # fmt: skip


@dataclass(frozen=True)
class DataSettings:
    """Maps and texts: files, or generated."""

    dir: str = setting(
        "", "folder of frl_grid_*.npz or t2a_*.json.gz; empty = generated data", path=True
    )
    generated_seed: int = setting(
        0, "seed of generated maps and texts; -1 = the run's seed", ge=-1, le=2**63 - 1
    )
    cache_dir: str = setting(
        "data/cache", "folder of converted data", may_change=True, path=True, filled=True
    )
    maps: int = setting(
        8000, "generated maps; 80 % train, 10 % validation, 10 % test", ge=20, le=10**7
    )
    corpus: str = setting(
        "auto", "texts; auto = generated, or win2k where there is a data.dir",
        choices=("auto", "generated", "win2k", "cooking", "wikihow"),
    )  # fmt: skip
    fold: int = setting(0, "which of the five folds is held out", ge=0, le=4)
    word_vectors: str = setting(
        "", "word2vec or GloVe file; empty = trained on the texts", path=True
    )
    word_vector_size: int = setting(
        50, "K_1: components of a word vector trained here", ge=2, le=10_000
    )

    @property
    def text_source(self) -> str:
        """The corpus with "auto" resolved."""
        if self.corpus != "auto":
            return self.corpus
        return "win2k" if self.dir else "generated"


@dataclass(frozen=True)
class WorldSettings:
    """The world: Grid-World (first part) or Text2Action."""

    kind: str = setting("gridworld", "the world", choices=("gridworld", "text2action"))
    grid_size: int = setting(8, "N: cells a side, ring of obstacles included", ge=5, le=128)
    history: int = setting(
        2, "H: observations that an agent remembers, the present one included", ge=1, le=64
    )
    step_limit: int = setting(
        0, "T_m: steps of an episode; 0 = twice the longest path of the maps", ge=0, le=10**6
    )
    step_reward: float = setting(-1.0, "reward of a move, for each agent")
    obstacle_reward: float = setting(-10.0, "reward of running into an obstacle, for each agent")
    meeting_reward: float = setting(50.0, "reward of meeting, once")
    task: str = setting(
        "names", "words to choose: action names, or arguments", choices=("names", "arguments")
    )
    max_words: int = setting(
        0,
        "N_w: words of a text that are read; 0 = 500 for names, 100 for arguments",
        ge=0,
        le=10**5,
    )
    text_reward: float = setting(50.0, "unit of reward", gt=0)
    last_word_bonus: float = setting(2.0, "reward added on the last word, as in the code")


@dataclass(frozen=True)
class NetworkSettings:
    """Networks of the parties, and the one they share."""

    kernels: str = setting(
        "window", "side of the filters: the window's, or 3", choices=("window", "3x3")
    )
    filters: int = setting(
        32, "filters of a convolution (of each height in Text2Action)", ge=1, le=10_000
    )
    tag_size: int = setting(50, "K_2: components of the part-of-speech embedding", ge=2, le=10_000)
    mlp_hidden: int = setting(
        0,
        "hidden units of the shared MLP; 0 = two for each joint action, the fewest that can start as a sum",
        ge=0,
        le=10**6,
    )


@dataclass(frozen=True)
class LearningSettings:
    """Q-learning, and the length of a round."""

    discount: float = setting(0.9, "gamma", ge=0, lt=1)
    learning_rate: float = setting(1e-3, "of Adam", gt=0)
    batch_size: int = setting(32, "B: records of a minibatch", ge=1, le=10**6)
    memory: int = setting(100_000, "records that replay holds", ge=100)
    reward_quota: float = setting(
        0.9, "share of a minibatch from rewards >= 0 (> 0 in Text2Action); 0 = uniform", ge=0, lt=1
    )
    epsilon_last: float = setting(0.1, "exploration after it has fallen from 1", ge=0, le=1)
    epsilon_steps: int = setting(1000, "environment steps over which exploration falls", ge=1)
    target_every: int = setting(5, "environment steps between refreshes of target networks", ge=1)
    steps_per_update: int = setting(1, "environment steps per gradient step", ge=1)
    round_length: int = setting(1000, "environment steps, or episodes, of a round", ge=1)
    round_unit: str = setting("steps", "what round-length counts", choices=("steps", "episodes"))
    patience: int = setting(
        0, "validations without improvement after which training ends; 0 = never", ge=0
    )


@dataclass(frozen=True)
class FederationSettings:
    """Who learns, and how often the parties exchange."""

    method: str = setting("fedrl", "who learns, and from what", choices=METHODS)
    parties: int = setting(
        2, "parties of fedrl; the third sees where both agents stand", ge=2, le=3
    )
    parallel_episodes: int = setting(
        1,
        "K: parallel episodes, and minibatches, in one exchange; 1 = the paper's algorithms",
        ge=1,
        le=10**6,
    )
    sealed: bool = setting(
        False,
        "parties seal Q-values, targets, actions and ids for each other, so that whoever relays them sees none",
        added=True,
    )

    @property
    def trains(self) -> bool:
        """Whether anything is learnt: random moves and shortest paths are what they are, whatever the number of rounds."""
        return self.method not in ("random", "oracle")

    @property
    def explores(self) -> bool:
        """Whether training tries actions at random: what imitates an expert does not."""
        return self.trains and not self.method.startswith("fcn-")

    @property
    def roles(self) -> tuple[str, ...]:
        """Role of every party, the rewarded one first."""
        if self.method == "fedrl":
            return ("alpha", "beta", "gamma")[: self.parties]
        if not self.trains:
            return ("alpha",)
        return (self.method.split("-")[1],)


@dataclass(frozen=True)
class PrivacySettings:
    """Noise on Q-values, and the statement that follows from it."""

    noise_sigma: float = setting(1.0, "sigma: standard deviation of the noise on Q-values", ge=0)
    behaviour_noise: bool = setting(True, "noise on the Q-values that choose actions in training")
    test_noise: str = setting(
        "both",
        "noise on Q-values in tests; noisy: in validations too, so that nothing leaves a party without noise",
        choices=("both", "none", "noisy"),
    )
    q_clip: float = setting(
        0.0, "L2 norm to which Q-values are clipped before noise; 0 = no clipping", ge=0
    )
    delta: float = setting(1e-5, "delta of the privacy statement", gt=0, lt=1)


@dataclass(frozen=True)
class EvaluationSettings:
    """Validations and tests."""

    episodes: int = setting(
        800, "Grid-World: episodes of a validation or test, around again where maps are fewer", ge=1
    )
    metrics: str = own_setting()


@dataclass(frozen=True)
class FedRLConfig(RunSettings):
    """All keys of `system = "fedrl"`; simulations/fedrl/*.toml name those that an experiment changes."""

    system: str = setting("fedrl", "system to run")
    data: DataSettings = section(DataSettings)
    world: WorldSettings = section(WorldSettings)
    network: NetworkSettings = section(NetworkSettings)
    learning: LearningSettings = section(LearningSettings)
    federation: FederationSettings = section(FederationSettings)
    privacy: PrivacySettings = section(PrivacySettings)
    published: PublishedSettings = section(PublishedSettings)
    evaluation: EvaluationSettings = section(EvaluationSettings)

    @property
    def data_seed(self) -> int:
        """The seed of generated data: the run's own where data.generated-seed is -1."""
        return self.seed if self.data.generated_seed < 0 else self.data.generated_seed
