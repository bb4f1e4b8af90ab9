"""About how many messages one after another a FedRL run takes on real nodes: its exchanges, and the ticks of its tests.

strategies/two_party.py says what an exchange is made of. How long episodes last is not known before they are played: tests
count as long as the longest may be, and training that counts episodes as if each lasted half as long.
"""

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.schedule import Schedule
from fedsuite.fedrl.text2action.corpus import MAX_WORDS
from fedsuite.roster.members import Roster
from simulations.app.message_costs import StepCosts

CURE = "a larger federation.parallel-episodes, which changes what is learnt, and a larger evaluate-every"
TESTS = {"both": 2, "none": 1, "noisy": 1}
STEPS_OF_A_SIDE = 4.5  # of maps: the longest episode, in sides of the grid
WORDS = {
    "generated": 68,
    "win2k": 126,
    "cooking": 464,
    "wikihow": 936,
}  # of a corpus's longest text


def costs_of(config: FedRLConfig, roster: Roster | None = None) -> StepCosts:
    """roster: None = episodes as long as those of generated maps and known corpora."""
    partners = len(config.federation.roles) - 1
    tests = TESTS[config.privacy.test_noise]
    if not partners:
        trained = int(config.federation.trains)
        return StepCosts(lambda _: trained, first=0, close=1, finish=tests + 1, cure=CURE)
    schedule, longest = Schedule(config), _longest(config, roster)
    length = config.learning.round_length
    per_round = -(-length // schedule.envs)
    if config.learning.round_unit == "episodes":
        per_round *= -(-longest // 2)
    joint = config.published.rules.mlp_updates == "joint"
    learning = 3 + (1 if joint else partners)  # act, answer, learn-first, learn

    def train(number: int) -> int:
        """Before replay is filled, and between updates, an exchange is act, answer, propose."""
        first = (number - 1) * per_round
        exchanges = range(first, first + per_round)
        return 1 + sum(learning if schedule.updates(n) else 3 for n in exchanges)

    test = 2 * longest + 1  # look and choose in every tick, then the scores
    return StepCosts(
        train, first=0, evaluate=test, close=1, finish=tests * test + 1, exact=False, cure=CURE
    )


def _longest(config: FedRLConfig, roster: Roster | None) -> int:
    """Most steps of an episode."""
    if roster is not None:
        return roster.fact("step-limit", int)
    if config.world.kind != "gridworld":
        return min(
            config.world.max_words or MAX_WORDS[config.world.task], WORDS[config.data.text_source]
        )
    return config.world.step_limit or round(STEPS_OF_A_SIDE * config.world.grid_size)
