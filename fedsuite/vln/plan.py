"""A FedVLN run as its server knows it, from settings and roster alone: sizes, starting weights, who learns from what.

Facts of the roster: feature-size, F. Members, in order: one per training house in order of first appearance, then one per
unseen house, then one per house of the leaderboard's split if the run walks it; centralised training has all training houses
in one member. Pre-exploration has the unseen houses (centralised: all in one), after the training houses if these learn
along.
"""

from typing import Any

from fedsuite.arrays import Arrays, module_arrays
from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo, Scalar, Selection
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Member, Roster
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.message_keys import TEST, VALIDATION
from fedsuite.vln.model.agent import Agent, AgentSizes, build_agent
from fedsuite.vln.model.decoders import decoder_of
from fedsuite.vln.model.speaker import Speaker, SpeakerSizes, build_speaker
from fedsuite.vln.stages import exchange_of, visit_steps
from fedsuite.vln.start import checked_model, house_model, run_of


def _sizes(config: FedVLNConfig, roster: Roster) -> dict[str, Any]:
    """What agent and speaker have in common."""
    if not roster.words:
        raise InputError(
            "roster: words must hold the vocabulary; have it made anew where the data are"
        )
    return {
        "vocabulary": len(roster.words),
        "feature": roster.fact("feature-size", int),
        "angle": config.agent.angle_feature_size,
        "hidden": config.agent.hidden_size,
        "word": config.agent.word_embedding_size,
        "dead_layers": config.agent.dead_layers,
    }


def initial_agent(config: FedVLNConfig, roster: Roster) -> Agent:
    """The agent before round 1, the same for every method with the same seed."""
    seed = int(rng_for(config.seed, "initial agent").integers(2**31))
    sizes = AgentSizes(**_sizes(config, roster), action=config.agent.action_embedding_size)
    return build_agent(sizes, seed, config.agent.masked_pooling, decoder_of(config.agent))


def initial_speaker(config: FedVLNConfig, roster: Roster) -> Speaker:
    """The speaker before round 1, the same for every method with the same seed."""
    seed = int(rng_for(config.seed, "initial speaker").integers(2**31))
    return build_speaker(SpeakerSizes(**_sizes(config, roster)), seed)


def starting_model(config: FedVLNConfig, roster: Roster) -> Arrays:
    """What the run starts from: the model of an earlier run, or a new one; InputError if that does not fit."""
    initial = initial_speaker if config.stage == "speaker" else initial_agent
    new = module_arrays(initial(config, roster))
    exchange = exchange_of(config, new)
    if not config.start_from:
        return new
    shapes = {k: v.shape for k, v in new.items()}
    if exchange.personal and all(house_model(config, name) for name in roster.names):
        # Every house goes on with its own agent; the server needs no more than it merges.
        shapes = {k: v.shape for k, v in exchange.share.select(new).items()}
    run = run_of(config.start_from, config.seed)
    return checked_model(run, "start-from", shapes, roster.words)


def starting_speaker(config: FedVLNConfig, roster: Roster) -> Arrays:
    """The speaker of an earlier run."""
    shapes = {k: v.shape for k, v in module_arrays(initial_speaker(config, roster)).items()}
    run = run_of(config.speaker_from, config.seed)
    return checked_model(run, "speaker-from", shapes, roster.words)


def clients_of(config: FedVLNConfig, roster: Roster) -> list[ClientInfo]:
    """What the clients say of themselves, from the roster alone; not in pre-exploration, where paths are sampled."""
    found = []
    for partition, member in enumerate(roster.members):
        counts = {s: sum(_counted(member, s)) for s in (*VALIDATION, TEST) if s in member.details}
        own = [n for n in _counted(member, "train") if n]
        details: dict[str, Scalar] = {
            "training-houses": len(own),
            "local-steps": sum(visit_steps(config, n) for n in own),
            "unseen": int(member.role == "unseen"),
            **{f"{split}.count": n for split, n in counts.items()},
        }
        found.append(ClientInfo(partition, member.name, sum(own), details))
    return found


def expected_clients(config: FedVLNConfig, roster: Roster) -> list[ClientInfo]:
    """The same of every stage: where paths are sampled, all but the leaderboard's houses have some, here 1."""
    if config.stage != "pre-explore":
        return clients_of(config, roster)
    return [
        ClientInfo(p, m.name, int(m.role != TEST), {"unseen": int(m.role == "unseen")})
        for p, m in enumerate(roster.members)
    ]


def selection_of(config: FedVLNConfig) -> Selection:
    """Agents are compared by success rate, then SPL; speakers by BLEU-2, then BLEU-4."""
    if config.evaluation.selection == "last":
        return Selection()
    split = config.evaluation.selection.removeprefix("best-").replace("-", "_")
    names = ("bleu-2", "bleu-4") if config.stage == "speaker" else ("sr", "spl")
    return Selection(tuple(f"{split}.{name}" for name in names))


def check_scored(config: FedVLNConfig, roster: Roster) -> None:
    """InputError, before anything is trained, where nobody has the instructions by which the run is to be judged."""
    counts = {s: sum(sum(_counted(m, s)) for m in roster.members) for s in ("train", *VALIDATION)}
    if not any(counts.values()):
        return  # written by hand, without counts
    if not any(counts[split] for split in VALIDATION):
        raise InputError(
            "data.dir: val_seen and val_unseen are empty, so nothing could be scored; put instructions into one of them"
        )
    for name in selection_of(config).metrics[:1]:
        if not counts[split := name.partition(".")[0]]:
            other = next(s for s in VALIDATION if counts[s])
            raise InputError(
                f"evaluation.selection: {config.evaluation.selection}, but {split} is empty; put instructions into it, "
                f"or choose last or best-{other.replace('_', '-')}"
            )


def _counted(member: Member, split: str) -> list[int]:
    """Instructions of a member's houses in a split."""
    return member.listed(split, int) if split in member.details else []


def local_steps_of(config: FedVLNConfig, client: ClientInfo) -> int:
    """Optimizer steps of a client's visit: as its method says, the centralised one as many as the participating houses
    would make on average."""
    if config.federation.method != "centralised":
        return visit_steps(config, client.num_examples)
    houses = client.count("training-houses")
    share = max(1, int(houses * config.federation.participation_rate)) / houses
    return max(1, round(client.count("local-steps") * share))
