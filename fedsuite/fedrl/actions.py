"""Sizes of the parties' networks that a server knows, too."""

# Joint actions to choose from, by world: four moves of either agent, or to select a word or not.
NUM_ACTIONS = {"gridworld": 4 * 4, "text2action": 2}
# Words that filters of Text2Action see at once; N_w is no less than the largest.
HEIGHTS = (2, 3, 4, 5)
