"""The server's half of a FedVLN run: who takes part, and the algorithm with its values."""

from functools import partial
from typing import Any

from fedsuite.aggregation import Step
from fedsuite.arrays import Share
from fedsuite.control_variates import CONTROL
from fedsuite.federation import RoundStrategy
from fedsuite.progress import Progress
from fedsuite.robust import MERGE_RULES, Merge
from fedsuite.roster import Roster
from fedsuite.server_optimizers import SERVER_OPTIMIZERS, TAKES
from fedsuite.values import chosen
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.federation_settings import FederationSettings
from fedsuite.vln.message_keys import OPTIMIZER
from fedsuite.vln.plan import (
    check_scored,
    expected_clients,
    local_steps_of,
    rate_of,
    selection_of,
    starting_model,
    starting_speaker,
)
from fedsuite.vln.stages import describes_paths, is_personal, share_of
from strategies.chains import trainers
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
    everybody,
)
from strategies.sabotage import with_saboteurs
from strategies.scoring import agent_means, speaker_corpus
from strategies.sequential_averaging import SequentialAveraging, SequentialLanguageEncoder


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
    strategy, beside = _algorithm(config, roster), (OPTIMIZER, CONTROL)
    return with_saboteurs(strategy, config.sabotage, config.seed, beside=beside)


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
        chains = grouping(1, participation_of(config)(1, training))
        merge_of(config.federation).check_planned(len(chains))


def _algorithm(config: FedVLNConfig, roster: Roster) -> RoundStrategy:
    """One of five, and the values that stage and method stand for."""
    initial, steps = starting_model(config, roster), partial(local_steps_of, config)
    participation = participation_of(config)
    if config.federation.method == "local-only" and not is_personal(config):
        return LocalOnly(initial, steps, participation)
    common: dict[str, Any] = {
        "initial": initial,
        "steps": steps,
        "participation": participation,
        "grouping": InGroups(config.federation.group_size, config.seed),
        "share": share_of(config),
        "merge": merge_of(config.federation),
        "max_share": config.federation.max_share,
        "server_optimizer": chosen(
            "federation.server-optimizer",
            config.federation.server_optimizer,
            SERVER_OPTIMIZERS,
            TAKES,
        ),
        "step": Step(
            momentum=config.federation.server_momentum,
            second_momentum=config.federation.server_second_momentum,
            tau=config.federation.server_tau,
            corrected=config.federation.server_bias_correction,
        ),
        "controls": Share() if config.federation.control_variates else Share(()),
        "rate": rate_of(config.federation),
        "selection": selection_of(config),
        "speaker": starting_speaker(config, roster) if describes_paths(config) else {},
        "scores": speaker_corpus if config.stage == "speaker" else agent_means,
        "writes": config.evaluation.submission or config.stage == "speaker",
        "discloses": config.stage == "pre-explore",
    }
    in_turn = config.federation.aggregation == "sequential"
    if is_personal(config):
        kind = SequentialLanguageEncoder if in_turn else LanguageEncoderFedAvg
        return kind(**common, newest=config.evaluation.personal_encoder == "newest")
    hands_on = config.federation.client_optimizer == "shared"
    if in_turn or hands_on:
        return SequentialAveraging(**common, in_turn=in_turn, hands_on=hands_on)
    if config.federation.houses_per_message:
        return PartialSums(**common, per_message=config.federation.houses_per_message)
    return HouseAveraging(**common)


def merge_of(own: FederationSettings) -> Merge:
    """The merge rule and the bound on changes."""
    rule = chosen("federation.merge", own.merge, MERGE_RULES)
    return Merge(rule, own.tolerated, own.update_bound, own.beyond_bound == "clip", own.merge)


def participation_of(config: FedVLNConfig) -> Participation:
    """Who takes part, by method and stage."""
    if config.federation.method == "centralised":
        return everybody
    if config.federation.participation == "published":
        return Published(config.federation.participation_rate)
    if config.stage != "pre-explore":
        return Drawn(config.federation.participation_rate, config.seed)
    unseen = Drawn(config.federation.participation_rate, config.seed, "unseen")
    return SeenAndUnseen(unseen, Drawn(config.federation.seen_participation_rate, config.seed))
