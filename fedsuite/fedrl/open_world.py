"""The world that a run's settings ask for."""

from collections.abc import Sequence

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.world import GridWorld, open_gridworld
from fedsuite.fedrl.gridworld.world import prepare as prepare_gridworld
from fedsuite.fedrl.text2action.world import TextWorld, open_text_world
from fedsuite.fedrl.text2action.world import prepare as prepare_text_world
from fedsuite.roster.members import CONTENT, Member, Roster
from fedsuite.roster.node_report import Part
from fedsuite.storage.progress import Progress


def open_world(config: FedRLConfig) -> GridWorld | TextWorld:
    """Opened once per process and settings."""
    return open_gridworld(config) if config.world.kind == "gridworld" else open_text_world(config)


def part_of(config: FedRLConfig, name: str, words: bool, progress: Progress) -> Part:
    """What the roster needs to know of the party `name`, whose world is prepared; words: of no meaning here."""
    roles = config.federation.roles
    if name not in roles:
        raise InputError(
            f"name: the node's file says {name!r}, the run's parties are {', '.join(roles)}; correct one of them"
        )
    roster = prepare_world(config, progress, (name,))
    facts = {key: value for key, value in roster.facts.items() if key != CONTENT}
    return Part("fedrl", roster.members[roster.partition_of(name)], facts)


def prepare_world(
    config: FedRLConfig, progress: Progress, parties: Sequence[str] | None = None
) -> Roster:
    """What is done once, before any party starts: generating, reading, checking; and who takes part.

    parties: those that play here; None = all. InputError where the data are another party's own.
    """
    if config.world.kind == "gridworld":
        prepare_gridworld(config, progress)
    else:
        prepare_text_world(config, progress)
    world = open_world(config)
    for role in config.federation.roles if parties is None else parties:
        world.check_party(role)
    count = world.num_episodes("train")
    members = tuple(Member(role, role, count) for role in config.federation.roles)
    told = {CONTENT: world.content} if world.content else {}
    return Roster(members, {"score": world.score, **world.facts, **told})
