"""FedAvg and what goes with it (server optimizers, robust merging, chains, SCAFFOLD), ready from settings alone."""

from collections.abc import Callable
from typing import Any

import torch

from fedsuite.arrays import Share, module_arrays
from fedsuite.averaging.exchange import exchange_of
from fedsuite.averaging.merging import ServerStep
from fedsuite.averaging.robust import MERGE_RULES, Merge
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS, TAKES
from fedsuite.averaging.settings import AveragingSettings, FedAvgSettings
from fedsuite.federation import ClientInfo, RateSchedule, Selection
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Roster
from fedsuite.settings.metrics import NO_ROWS, Metrics
from fedsuite.settings.values import chosen
from strategies.averaging import Averaging
from strategies.chains import trainers
from strategies.participation import Drawn, InGroups, chosen_participation, planned


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
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng_for(config.seed, "initial model").integers(2**63)))
            made = model()
        exchange = exchange_of(config.federation, made.state_dict())
        trained = Share(tuple(name for name, _ in made.named_parameters()))  # no buffers
        super().__init__(
            initial=module_arrays(made),
            steps=lambda client: config.visit_steps(client.num_examples),
            participation=chosen_participation(
                config.federation, Drawn(config.federation.participation_rate, config.seed, "all")
            ),
            selection=selection,
            metrics=metrics,
            exchange=exchange,
            **averaging_values(config.federation, config.seed, trained),
        )
        able = trainers(clients_of(roster))
        if taking_part := able and planned(self.participation, config.seed, able):
            self.merge.check_planned(len(self.grouping(1, taking_part)))


def averaging_values(own: AveragingSettings, seed: int, trained: Share = Share()) -> dict[str, Any]:
    """What the settings say of an Averaging, by the names of its fields; trained: the arrays that have gradients."""
    return server_values(own) | {
        "seed": seed,
        "remembers": own.remembers,
        "grouping": InGroups(own.group_size, seed),
        "merge": merge_of(own),
        "max_share": own.max_share,
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


def clients_of(roster: Roster) -> list[ClientInfo]:
    """What clients say of themselves, from the roster alone: a system's `known`, where they say nothing else."""
    return [ClientInfo(p, m.name, m.examples) for p, m in enumerate(roster.members)]
