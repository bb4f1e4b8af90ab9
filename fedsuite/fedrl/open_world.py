"""The world that a run's settings ask for."""

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.world import open_gridworld
from fedsuite.fedrl.gridworld.world import prepare as prepare_gridworld
from fedsuite.fedrl.text2action.world import TextWorld, open_text_world
from fedsuite.fedrl.text2action.world import prepare as prepare_text_world
from fedsuite.fedrl.worlds import World
from fedsuite.roster.members import CONTENT, Member, Roster
from fedsuite.roster.node_report import Part
from fedsuite.storage.files import sha256_of
from fedsuite.storage.progress import Progress


def open_world(config: FedRLConfig) -> World:
    """Opened once per process and settings."""
    return open_gridworld(config) if config.world.kind == "gridworld" else open_text_world(config)


def part_of(config: FedRLConfig, name: str, words: bool, progress: Progress) -> Part:
    """What the roster needs to know of the party `name`, whose world is prepared; words: of no meaning here."""
    roster = prepare_world(config, progress)
    if name not in roster.names:
        raise InputError(
            f"name: the node's file says {name!r}, the run's parties are {', '.join(roster.names)}; correct one of them"
        )
    return Part("fedrl", roster.members[roster.partition_of(name)], roster.facts)


def prepare_world(config: FedRLConfig, progress: Progress) -> Roster:
    """What is done once, before any party starts: generating, reading, checking; and who takes part."""
    if config.world.kind == "gridworld":
        prepare_gridworld(config, progress)
    else:
        prepare_text_world(config, progress)
    world = open_world(config)
    count = world.num_episodes("train")
    members = tuple(Member(role, role, count) for role in config.federation.roles)
    facts: dict[str, object] = {"score": world.score, **world.facts}
    if isinstance(world, TextWorld) and config.data.word_vectors:
        used = sha256_of(world.table.word_vectors.tobytes())
        facts[CONTENT] = {"data.word-vectors": used}
    return Roster(members, facts)
