"""How many joint actions the parties choose from, by world: four moves of either agent, or to select a word or not."""

NUM_ACTIONS = {"gridworld": 4 * 4, "text2action": 2}
