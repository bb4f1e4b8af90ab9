"""The server's half of a FedVLN run: who takes part, and the algorithm with its values."""

from functools import partial
from typing import Any

from fedsuite.averaging.beside import BESIDE
from fedsuite.federation import Clients, RoundStrategy
from fedsuite.privacy.example_level import sampling_rate
from fedsuite.roster.members import Roster
from fedsuite.storage.progress import Progress
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.metrics import metrics_of
from fedsuite.vln.plan import (
    check_scored,
    expected_clients,
    local_steps_of,
    selection_of,
    starting_model,
    starting_speaker,
)
from fedsuite.vln.stacking import brings_sums
from fedsuite.vln.stages import describes_paths, exchange_of, has_own
from strategies.chains import trainers
from strategies.coded import with_codec
from strategies.fedavg import averaging_values, check_merge
from strategies.house_averaging import HouseAveraging
from strategies.language_encoder_fedavg import LanguageEncoderFedAvg
from strategies.local_only import LocalOnly
from strategies.partial_sums import PartialSums
from strategies.participation import (
    Drawn,
    InGroups,
    Participation,
    Published,
    SeenAndUnseen,
    chosen_participation,
    everybody,
    planned,
)
from strategies.private import check_first, participants_of, planned_limit, private_values
from strategies.sabotage import with_saboteurs
from strategies.secure_sums import check_planned, with_secure_sum
from strategies.sequential_averaging import SequentialAveraging, SequentialLanguageEncoder
from strategies.shared_messages import in_shared_messages


def prepare(config: FedVLNConfig, progress: Progress) -> Roster:
    """Generate, convert and check the data, and the models that the run starts from."""
    from fedsuite.vln.data.roster import make_roster
    from fedsuite.vln.data.sources import prepare_sources

    roster = make_roster(config, prepare_sources(config, progress))
    _check_roster(config, roster)
    starting_model(config, roster)
    if describes_paths(config):
        starting_speaker(config, roster)
    return roster


def make_strategy(config: FedVLNConfig, roster: Roster) -> RoundStrategy:
    """The run's algorithm, with saboteurs among its clients if there are any; the roster may be a given one."""
    _check_roster(config, roster)
    strategy = _algorithm(config, roster)
    strategy = with_saboteurs(strategy, config.sabotage, config.seed, beside=BESIDE)
    exchange = exchange_of(config)
    strategy = with_secure_sum(
        strategy, config, lambda: exchange.share.select(starting_model(config, roster))
    )
    strategy = with_codec(strategy, exchange, BESIDE)
    return in_shared_messages(strategy, config.federation.houses_per_message)


def _check_roster(config: FedVLNConfig, roster: Roster) -> None:
    """InputError, before anything is trained, where too few take part for what the run is to do."""
    check_scored(config, roster)
    clients = expected_clients(config, roster)
    if not (training := trainers(clients)):
        return  # written by hand, without counts
    if config.sabotage.partitions:
        config.sabotage.check_among(clients)
    if config.federation.method == "federated":
        grouping = InGroups(config.federation.group_size, config.seed)
        chains = grouping(1, planned(participation_of(config), config.seed, training))
        check_merge(config.federation, chains)
        check_planned(config, len(chains))


def _algorithm(config: FedVLNConfig, roster: Roster) -> RoundStrategy:
    """One of five, and the values that stage and method stand for."""
    initial, steps = starting_model(config, roster), partial(local_steps_of, config)
    participation = participation_of(config)
    exchange = exchange_of(config)
    if config.federation.method == "local-only" and not exchange.personal:
        remembers = config.federation.remembers
        return LocalOnly(initial, steps, participation, config.seed, remembers)
    hides = config.privacy.unit != "none"
    training = trainers(expected_clients(config, roster)) if hides else []
    expected = len(planned(participation, config.seed, training)) if training else 0
    common: dict[str, Any] = {
        **averaging_values(config.federation.merging, config.seed),
        **private_values(config, expected),
        **_limit(config, training),
        "initial": initial,
        "steps": steps,
        "participation": participation,
        "exchange": exchange,
        "exports": has_own(config),
        "selection": selection_of(config),
        "speaker": starting_speaker(config, roster) if describes_paths(config) else {},
        "metrics": metrics_of(config),
        "writes": config.evaluation.submission or config.stage == "speaker",
        "discloses": config.stage == "pre-explore",
    }
    in_turn = config.federation.merging.aggregation == "sequential"
    if exchange.keeps == "all":
        kind = SequentialLanguageEncoder if in_turn else LanguageEncoderFedAvg
        return kind(**common, newest=config.evaluation.personal_encoder == "newest")
    hands_on = config.federation.client_optimizer == "shared"
    if in_turn or hands_on:
        return SequentialAveraging(**common, in_turn=in_turn, hands_on=hands_on)
    if brings_sums(config):
        return PartialSums(**common, per_message=config.federation.houses_per_message)
    return HouseAveraging(**common)


def _limit(config: FedVLNConfig, training: Clients) -> dict[str, Any]:
    """The limit of a run that hides single instructions, as a field of a strategy; {} without."""
    own = ":" in config.federation.participation
    who = everybody if own else participation_of(config)
    batch = config.objective.batch_size
    limit = planned_limit(
        config.privacy,
        participants_of(who, config.seed, training),
        partial(local_steps_of, config),
        lambda house: sampling_rate(batch, house.num_examples),
    )
    if limit:
        check_first(limit["limit"], bool(config.resume))
    return limit


def participation_of(config: FedVLNConfig) -> Participation:
    """Who takes part, by method and stage."""
    if config.federation.method == "centralised":
        return everybody
    if config.federation.participation == "published":
        return Published(config.federation.participation_rate)
    rate, seed = config.federation.participation_rate, config.seed
    drawn: Participation = Drawn(rate, seed)
    if config.stage == "pre-explore":
        seen = Drawn(config.federation.seen_participation_rate, seed)
        drawn = SeenAndUnseen(Drawn(rate, seed, "unseen"), seen)
    return chosen_participation(config.federation, drawn)
