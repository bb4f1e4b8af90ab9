"""A system of one's own from a torch network, a loss and data: FedAvg on the server, TorchClient on the clients."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from clients.torch_client import Examples, Score, TorchClient, rows_of
from fedsuite.averaging.requirements import check_averaging
from fedsuite.averaging.settings import FEDAVG_UNREAD, FedAvgSettings
from fedsuite.federation import RoundStrategy, Selection
from fedsuite.history import load_runs
from fedsuite.privacy.complaints import check_privacy
from fedsuite.privacy.guarantee import guarantee_text
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.metrics import Metric, Metrics
from simulations.app.opened import Opened
from simulations.systems import Node, System
from strategies.coded import with_codec
from strategies.fedavg import FedAvg, clients_of
from strategies.secure_sums import with_secure_sum

if TYPE_CHECKING:
    from fedsuite.reports.page.questions import Answers, RunRead

C = TypeVar("C", bound=FedAvgSettings)


def check(config: FedAvgSettings) -> None:
    """InputError for settings that cannot work."""
    check_averaging(config)
    check_privacy(config)


def privacy_report(config: FedAvgSettings, run_dir: Path) -> None:
    """results.md of a run with differential privacy: what it guarantees."""
    if config.privacy.unit != "none":
        text = guarantee_text(config, run_dir, load_runs(run_dir).rounds)
        RunFolder(run_dir).results.write_text(text, encoding="utf-8")


def answers(config: FedAvgSettings, run: "RunRead") -> "Answers":
    """Those of every system, and what a run with differential privacy guarantees."""
    from fedsuite.reports.page.questions import plain_answers  # draws, which a run does not

    told = plain_answers(config, run)
    private = guarantee_text(config, run.folder, run.frames.rounds).strip()
    return replace(told, notes=(*told.notes, *filter(None, [private])))


def torch_system(
    name: str,
    settings: type[C],
    clients: Callable[[C], Roster],
    model: Callable[[C], torch.nn.Module],
    loss: Score,
    data: Callable[[C, Node], Examples],
    *,
    test: Callable[[C, Node], Examples] | None = None,
    metrics: Mapping[str, Score] | Sequence[Metric] = (),
    selection: Selection = Selection(),
    **more: Any,
) -> System[C]:
    """A System; loss and metrics: (outputs, targets) -> the mean over rows.

    clients: who takes part, with how many training examples each (`roster_of`). model: a process makes one network
    and trains all its clients with it; what changes in it is in its state dict. data, test: what a client trains on and is
    scored on, its own and nothing of others; without `test` the same. selection: as FedAvg's. more: further fields of
    System. metrics: (outputs, targets) -> the mean over rows, by name, or rows with such a `compute`.
    """
    table = Metrics(rows_of(metrics))
    shell = lru_cache(maxsize=2)(model)

    def open_client(config: C, node: Node) -> TorchClient:
        held_out = test(config, node) if test else None
        own = data(config, node)
        return TorchClient(shell(config), loss, own, config, node, test=held_out, metrics=metrics)

    def make_strategy(config: C, roster: Roster) -> RoundStrategy:
        strategy = FedAvg(config, roster, partial(model, config), selection, table)
        exchange, initial = strategy.exchange, strategy.initial
        summed = with_secure_sum(strategy, config, lambda: exchange.share.select(initial))
        return with_codec(summed, exchange)

    ready: dict[str, Any] = {
        "prepare": lambda config, _: clients(config),
        "make_strategy": make_strategy,
        "make_client": Opened(open_client),
        "metrics": lambda config: table,
        "validate": check,
        "unread": FEDAVG_UNREAD,
        "report": privacy_report,
        "answers": answers,
        "known": lambda config, roster: clients_of(roster),
        "engine": "inprocess",
    }
    return System(name=name, config_class=settings, **{**ready, **more})
