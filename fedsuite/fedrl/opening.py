"""The world that a run's settings ask for."""

from collections.abc import Callable

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.world import open_gridworld
from fedsuite.fedrl.gridworld.world import prepare as prepare_gridworld
from fedsuite.fedrl.text2action.world import open_text_world
from fedsuite.fedrl.text2action.world import prepare as prepare_text_world
from fedsuite.fedrl.worlds import World


def open_world(config: FedRLConfig) -> World:
    """Opened once per process and settings."""
    return open_gridworld(config) if config.world == "gridworld" else open_text_world(config)


def prepare_world(config: FedRLConfig, progress: Callable[[str], None]) -> None:
    """What is done once, before any party starts: generating, reading, checking."""
    if config.world == "gridworld":
        prepare_gridworld(config, progress)
    else:
        prepare_text_world(config, progress)
