"""Neighbour averaging: every silo's backbone is mixed with those of its neighbours (Do et al. 2024; DPASGD).

Each round every silo trains its own backbone, then theta_i <- sum_j A_ij theta_j with the mixing matrix A of the
overlay. A server's average is the case that all rows of A are equal (FedAvg, STAR), local training the case A = I,
pooled training the case N = 1: one strategy serves every scenario. The server here only relays what the overlay's
links would carry: row i of A applied to the backbones of i and its neighbours goes back to silo i, nothing else does.

Silos that did not answer are left out: the rows of A are re-normalised over those who did, and an absent silo keeps
the backbone that it had. Local optimizers that look across mixings need columns that sum to 1 as well, so with them the
others mix by `rebalance`; what such an optimizer has mixed (`beside`) goes the way of the backbones. Where models are
relayed along a tree (relay-sgd), messages under way have rows of the state and of A behind the silos'; they stay here. With
several mixings per round all but the last happen inside the clients, and messages between the silos of one travel with them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedsuite.arrays import Arrays, under_prefix, with_prefix
from fedsuite.averaging.privacy_settings import EPSILON, EXAMPLE
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.evaluation.metrics import Errors, merged
from fedsuite.driving.message_keys import AVERAGE, OWN, SILOS, TERMS, by_silo
from fedsuite.driving.metrics import metrics_of
from fedsuite.driving.topology.mixing import average_model, consensus_distance
from fedsuite.driving.topology.robust_mixing import MIXING_RULES, MixingLimits, MixingRule
from fedsuite.federation import (
    Asking,
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    RoundStrategy,
    ServerState,
    Task,
)
from fedsuite.settings.metrics import Metric
from fedsuite.settings.values import chosen
from strategies.star_server import AVERAGES, MODEL, StarServer


class Schedule(Protocol):
    """matrix_among(t, present [N]): the mixing matrix A [R, R] float64 of mixing step t, rows that sum to 1, over the silos
    that answered; rows_of(silos): those rows of A that are theirs alone, their own first. See MixingSchedule."""

    def matrix_among(self, round: int, present: np.ndarray) -> np.ndarray: ...

    def rows_of(self, silos: Collection[int]) -> list[int]: ...


@dataclass(frozen=True)
class Costs:
    """Of one mixing step. cycle_time_ms: of the overlay, None if unknown; edges: directed links used; bits: a message, on
    average over the links."""

    cycle_time_ms: float | None
    edges: float
    bits: float


class NeighbourAveraging(RoundStrategy):
    """Server side of every CDL scenario. `initial`: one backbone's mixed arrays; `silos_of`: silos of each partition;
    `beside`: what else silos mix, as it is at the start; `server`: what a star's server does beside averaging. State: a row
    for each silo, then one for each message under way."""

    def __init__(
        self, config: CDLConfig, initial: Arrays, silos_of: Sequence[Sequence[int]],
        schedule: Schedule, costs: Costs, beside: Arrays | None = None, server: StarServer = AVERAGES,
    ) -> None:  # fmt: skip
        self.config, self.initial, self.schedule, self.costs = config, initial, schedule, costs
        self.beside, self.server = beside or {}, server
        self.silos_of = [list(h) for h in silos_of]
        own, self.metrics = config.federation, metrics_of(config).computed
        self.rule: MixingRule = chosen("federation.merge", own.merge, MIXING_RULES)
        self.limits = MixingLimits(own.clip_ratio, own.tolerated)
        self.num_silos = sum(len(h) for h in silos_of)
        self.rows_of = [schedule.rows_of(h) for h in silos_of]

    def over(self, number: int) -> str:
        return self.server.limit(number)

    # --- the three phases of a run ---------------------------------------------------------------

    def start(self, clients: Clients) -> Exchanges:
        """Every silo starts from the same backbone."""
        yield []  # nothing to ask the clients
        one = self.initial | self.beside
        rows = len(self.schedule.rows_of(range(self.num_silos)))
        arrays = {k: np.repeat(v[None], rows, axis=0) for k, v in one.items()}
        return RoundResult(ServerState(arrays, optimizer=self.server.begun(self.initial)))

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """`mixings-per-round` times: local updates, then one mixing step."""
        per_round = self.config.federation.mixings_per_round
        first = (number - 1) * per_round
        asked = {"first-mixing": first, "mixings": per_round}
        replies = yield [
            Task(p, "train", _rows(state.arrays, rows) | self.server.sent(state, len(rows)), asked)
            for p, rows in enumerate(self.rows_of)
        ]
        collected, present = self._collect(state.arrays, replies)
        matrix = self.schedule.matrix_among(first + per_round - 1, present)
        mixed = self.rule(state.arrays, collected, matrix, self.limits)
        after, said = self.server.after(
            number, state, mixed.stacked, collected, matrix, present, replies
        )
        arrays = after.arrays
        metrics = training_metrics(replies, self.config)
        metrics |= {
            "consensus-distance": consensus_distance(self._models(arrays)),
            "consensus-distance-before-mixing": consensus_distance(self._models(collected)),
        } | self.costs_after(first + per_round)
        if mixed.clipped:
            metrics["links-clipped"] = mixed.clipped
        if not present.all():
            metrics["silos-missing"] = float((~present).sum())
        admitted = {
            p: float(mixed.admitted[held].min())
            for p, held in enumerate(self.silos_of)
            if len(mixed.admitted) and mixed.admitted[held].min() < 1
        }
        return RoundResult(after, metrics | said, admitted)

    def evaluate(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The average model over all silos' test frames, and every silo's own backbone over its own."""
        models = self._models(state.arrays)
        average = with_prefix(self._average(state), AVERAGE)
        replies = yield [
            Task(
                c.partition,
                "evaluate",
                with_prefix(_rows(models, self.silos_of[c.partition]), OWN) | average,
                {},
                {},
            )
            for c in clients
        ]
        return RoundResult(state, errors_by_silo(replies, self.metrics))

    def finish(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """The result is the average model, with every silo's backbone beside it."""
        models = self._models(state.arrays)
        metrics: dict[str, float] = {}
        if self.config.evaluation.cross_evaluation:
            metrics = yield from self._cross_evaluate(models, clients)
        result = self._average(state) | with_prefix(models, SILOS)
        return RoundResult(ServerState(result, state.scalars), metrics)

    def _average(self, state: ServerState) -> Arrays:
        """The mean of all silos' backbones, or what the server has made of it."""
        return average_model(self._models(state.arrays)) | under_prefix(state.optimizer, MODEL)

    # --- one round -------------------------------------------------------------------------------

    def costs_after(self, mixings: int) -> dict[str, float]:
        """What so many mixing steps have cost."""
        metrics = {
            "mixings": float(mixings),
            "serial-depth": float(self.config.training.local_updates * mixings),
            "overlay-bytes": mixings * self.costs.edges * self.costs.bits / 8,
        }
        if self.costs.cycle_time_ms is not None:
            metrics["simulated-seconds"] = mixings * self.costs.cycle_time_ms / 1000
        return metrics

    def _models(self, arrays: Arrays) -> Arrays:
        """Backbones alone [N, ...], without what is mixed beside them and without messages under way."""
        return {k: v[: self.num_silos] for k, v in arrays.items() if k not in self.beside}

    def _collect(
        self, before: Mapping[str, np.ndarray], replies: Sequence[Reply]
    ) -> tuple[Arrays, np.ndarray]:
        """Backbones after local training, with messages under way [R, ...], and which silos answered [N]."""
        collected = {k: v.copy() for k, v in before.items()}
        present = np.zeros(self.num_silos, bool)
        for reply in replies:
            present[self.silos_of[reply.partition]] = True
            for name, rows in collected.items():
                rows[self.rows_of[reply.partition]] = reply.arrays[name]
        return collected, present

    def _cross_evaluate(self, arrays: Arrays, clients: Clients) -> Asking[dict[str, float]]:
        """The silos' backbones, each on the test frames of all: how a vehicle fares away from home."""
        everywhere: list[Errors] = []
        asked = [silo for c in clients for silo in self.silos_of[c.partition]]
        for silo in asked:
            model = {k: np.asarray(v[silo]) for k, v in arrays.items()}
            replies = yield [
                Task(c.partition, "evaluate", with_prefix(model, AVERAGE), {}, {}) for c in clients
            ]
            parts = [m for r in replies for m in by_silo(r.metrics).values()]
            everywhere.append(merged(_errors(m, "average", self.metrics) for m in parts))
        values = {m.name: [e.scores[m.name] for e in everywhere] for m in self.metrics}
        rmse = values["rmse"]
        metrics = {"everywhere-rmse.mean": float(np.mean(rmse)), "everywhere-rmse.worst": max(rmse)}
        metrics |= {f"everywhere-{k}.mean": float(np.mean(of)) for k, of in values.items()}
        return metrics | {
            f"silo.{i}.everywhere-rmse": value for i, value in zip(asked, rmse, strict=True)
        }


def _rows(arrays: Mapping[str, np.ndarray], held: Sequence[int]) -> Arrays:
    return {k: v[list(held)] for k, v in arrays.items()}


def errors_by_silo(replies: Sequence[Reply], rows: Sequence[Metric]) -> dict[str, float]:
    """Scores of the average model, where there is one, and of the silos' own backbones, together and silo by silo."""
    found = {silo: m for r in replies for silo, m in by_silo(r.metrics).items()}
    own, average = (
        {s: _errors(m, label, rows) for s, m in sorted(found.items()) if f"{label}.count" in m}
        for label in ("own", "average")
    )
    values = {m.name: {silo: e.scores[m.name] for silo, e in own.items()} for m in rows}
    everybody = [_errors(m, "average", rows) for s, m in found.items() if s in average]
    metrics = merged(everybody).scores if everybody else {}
    for row in rows:
        by, worst = values[row.name], min if row.lower is False else max
        metrics |= {f"silo-{row.name}.mean": float(np.mean([*by.values()]))}
        metrics |= {f"silo-{row.name}.worst": worst(by.values())}
    metrics |= {f"silo.{silo}.{k}": value for k, by in values.items() for silo, value in by.items()}
    for silo, e in average.items():
        metrics |= {f"silo.{silo}.average-{k}": value for k, value in e.scores.items()}
    return metrics


def _errors(metrics: Mapping[str, float], label: str, rows: Sequence[Metric]) -> Errors:
    return Errors(
        {name: metrics[f"{label}.{name}"] for name in (*(m.sent for m in rows), "count")}, rows
    )


def training_metrics(replies: Sequence[Reply], config: CDLConfig) -> dict[str, float]:
    """Means over silos of the loss terms and, with CDL, of the distance between backbone and sub-network; under privacy of
    single frames, whose losses nobody is told, the most that a silo has spent of it."""
    silos = [m for r in replies for m in by_silo(r.metrics).values()]
    if config.privacy.unit == EXAMPLE:
        return {f"train.{EPSILON}": max(m[EPSILON] for m in silos)}
    names = (*TERMS, "sub-network-distance") if config.objective.contrastive else TERMS[:1]
    return {f"train.{n}": float(np.mean([m[n] for m in silos])) for n in names}
