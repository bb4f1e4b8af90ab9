"""FedAvg and what goes with it (server optimizers, robust merging, chains, SCAFFOLD), ready from settings alone."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fedsuite.arrays import Share, module_arrays
from fedsuite.averaging.beside import check_names
from fedsuite.averaging.exchange import exchange_of
from fedsuite.averaging.merging import ServerStep
from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS, TAKES
from fedsuite.averaging.settings import AveragingSettings, FedAvgSettings
from fedsuite.averaging.trust import TRUSTING
from fedsuite.errors import InputError
from fedsuite.federation import ClientInfo, Clients, RateSchedule, Selection
from fedsuite.privacy.complaints import check_privacy
from fedsuite.privacy.example_level import sampling_rate
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Roster
from fedsuite.settings.metrics import NO_ROWS, Metrics
from fedsuite.settings.values import chosen, shown
from strategies.averaging import Averaging
from strategies.chains import trainers
from strategies.participation import (
    Drawn,
    InGroups,
    Participation,
    chosen_participation,
    everybody,
    planned,
)
from strategies.private import check_first, participants_of, planned_limit, private_values
from strategies.secure_sums import check_planned


class FedAvg(Averaging):
    """A strategy of a run with FedAvgSettings.

    model: makes the network whose parameters are trained; its first weights are draws of the run's seed. selection: by which
    metrics of evaluations the best round is chosen; of the last round is the result otherwise. metrics: as of an Averaging.
    InputError where the roster has too few clients for the merge rule.
    """

    def __init__(
        self,
        config: FedAvgSettings,
        roster: Roster,
        model: Callable[[], torch.nn.Module],
        selection: Selection = Selection(),
        metrics: Metrics = NO_ROWS,
    ) -> None:
        check_privacy(config)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng_for(config.seed, "initial model").integers(2**63)))
            made = model()
        check_names(made.state_dict(), "model")
        exchange = exchange_of(config.federation, made.state_dict())
        trained = Share(tuple(name for name, _ in made.named_parameters()))  # no buffers
        able = trainers(clients_of(roster))
        participation = chosen_participation(
            config.federation, Drawn(config.federation.participation_rate, config.seed, "all")
        )
        taking_part = able and planned(participation, config.seed, able)
        values = averaging_values(config.federation, config.seed, trained)
        values |= _privacy_values(config, able, participation, len(taking_part))
        super().__init__(
            initial=module_arrays(made),
            steps=lambda client: config.visit_steps(client.num_examples),
            participation=participation,
            selection=selection,
            metrics=metrics,
            exchange=exchange,
            **values,
        )
        if taking_part:
            check_merge(config.federation, self.grouping(1, taking_part))
            check_planned(config, len(taking_part))
        check_first(self.limit, bool(config.resume))


def _privacy_values(
    config: FedAvgSettings, able: Clients, participation: Participation, expected: int
) -> dict[str, Any]:
    """What the section `privacy` says of an Averaging, by the names of its fields."""
    own = ":" in config.federation.participation
    who = participants_of(everybody if own else participation, config.seed, able)
    return private_values(config, expected) | planned_limit(
        config.privacy,
        who,
        lambda client: config.visit_steps(client.num_examples),
        lambda client: sampling_rate(config.training.batch_size, client.num_examples),
    )


def averaging_values(own: AveragingSettings, seed: int, trained: Share = Share()) -> dict[str, Any]:
    """What the settings say of an Averaging, by the names of its fields; trained: the arrays that have gradients."""
    return server_values(own) | {
        "seed": seed,
        "remembers": own.remembers,
        "grouping": InGroups(own.group_size, seed),
        "merge": merge_of(own),
        "max_share": own.max_share,
        "trusted": own.trusted,
        "controls": trained if own.control_variates else Share(()),
        "rate": RateSchedule(
            own.server_learning_rate, own.server_learning_rate_decay, own.server_decay_steps
        ),
    }


def server_values(own: Any) -> dict[str, Any]:
    """The server optimizer and its constants, of any section that has the keys server-*."""
    name = own.server_optimizer
    return {
        "server_optimizer": chosen("federation.server-optimizer", name, SERVER_OPTIMIZERS, TAKES),
        "step": ServerStep(
            rate=own.server_learning_rate,
            momentum=own.server_momentum,
            second_momentum=own.server_second_momentum,
            tau=own.server_tau,
            corrected=own.server_bias_correction,
        ),
    }


def merge_of(own: AveragingSettings) -> Merge:
    """The merge rule and the bound on changes."""
    rule = chosen("federation.merge", own.merge, MERGE_RULES)
    return Merge(rule, own.tolerated, own.update_bound, own.beyond_bound == "clip", own.merge)


def check_merge(own: AveragingSettings, chains: Sequence[Clients]) -> None:
    """InputError where the chains of a round are too few for the merge rule, or not what it needs."""
    merge_of(own).check_planned(len(chains))
    partitions = [c.partition for chain in chains for c in chain]
    if own.merge == TRUSTING and own.trusted not in partitions:
        raise InputError(
            f"federation.trusted: no partition {own.trusted} among those that train, {shown(partitions)}; name one of them"
        )


def clients_of(roster: Roster) -> list[ClientInfo]:
    """What clients say of themselves, from the roster alone: a system's `known`, where they say nothing else."""
    return [ClientInfo(p, m.name, m.examples) for p, m in enumerate(roster.members)]
