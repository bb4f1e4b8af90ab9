"""The project's worlds in Gymnasium's registry; importing this module enters them.

    import gymnasium
    env = gymnasium.make("fedsuite.worlds:fedsuite/GridWorld-v0")

or, after `import fedsuite.worlds`, `gymnasium.make("fedsuite/GridWorld-v0")`: Gymnasium 1.x looks for no plugins, so that
somebody has to name the module. What the environments are opened with stands at their classes.
"""

from gymnasium import register

ENVIRONMENTS = {
    "fedsuite/GridWorld-v0": "fedsuite.fedrl.gridworld.env:GridWorldEnv",
    "fedsuite/Text2Action-v0": "fedsuite.fedrl.text2action.env:Text2ActionEnv",
    "fedsuite/House-v0": "fedsuite.vln.house_env:HouseEnv",
}
VECTORS = {"fedsuite/GridWorld-v0": "fedsuite.fedrl.gridworld.env:GridWorldVectorEnv"}

for name, place in ENVIRONMENTS.items():
    register(name, entry_point=place, vector_entry_point=VECTORS.get(name))
