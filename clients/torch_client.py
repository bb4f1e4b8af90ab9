"""A torch network as a Flower client: local steps and evaluation from model, loss and data alone.

What leaves the client: what clients/local_client.py lists, and scores. Examples stay, and so does what is listed there, in
<private>/round-NNNNNN.safetensors.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.func import functional_call
from torch.optim import Optimizer

from clients.local_client import LocalClient
from clients.numpy_client_app import Config, Parameters, Scored, named_arrays
from clients.torch_lessons import TorchLessons
from fedsuite.arrays import load_arrays
from fedsuite.averaging.exchange import exchange_of
from fedsuite.averaging.gradients import Gradients
from fedsuite.averaging.plain_sgd import PlainSGD
from fedsuite.averaging.privacy_settings import EPSILON, EXAMPLE
from fedsuite.averaging.settings import FedAvgSettings
from fedsuite.messages.instructions import YES_NO, Instruction, Whole, query, task
from fedsuite.privacy.example_level import begin_visit, check_hides
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Member
from fedsuite.runs.versions import Versions
from fedsuite.settings.devices import device_of
from fedsuite.settings.metrics import Metric

Examples = tuple[Tensor, ...]  # inputs of the network, and the targets last; rows are examples
ROWS = 4096  # that are scored at once
GATHERED_BYTES = 2**20  # of mini-batches that are taken from the data at once
_ALIGNED = 64  # bytes; the last bits of a product may depend on where its factors begin
Score = Callable[[Tensor, Tensor], Tensor]  # (predictions, targets) -> a mean over rows


class Place(Protocol):
    """Who a client is: a `Node`."""

    @property
    def partition(self) -> int: ...
    @property
    def folder(self) -> Path: ...
    @property
    def member(self) -> Member: ...


def rows_of(metrics: Mapping[str, Score] | Sequence[Metric]) -> tuple[Metric, ...]:
    """A table of metrics that are computed of (outputs, targets), as means over rows."""
    if isinstance(metrics, Mapping):
        return tuple(Metric(name, compute=score) for name, score in metrics.items())
    return tuple(metrics)


class TorchClient(LocalClient):
    """model: a network of the right sizes, whose weights are overwritten; loss: (outputs, targets) -> the mean over rows.

    data: what is trained on; test: what the server's model is scored on, nothing if it is empty; if it is not given `data`,
    or nothing under privacy of single examples, since scores get no noise.
    metrics: beside the loss, by name or as rows of a table. optimizer: makes a fresh one for every visit, from parameters
    and learning rate.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Score,
        data: Examples,
        config: FedAvgSettings,
        node: Place,
        *,
        test: Examples | None = None,
        metrics: Mapping[str, Score] | Sequence[Metric] = (),
        optimizer: Callable[[Iterable[Tensor], float], Optimizer] = PlainSGD,
    ) -> None:
        name = node.member.name
        exchange = exchange_of(config.federation, model.state_dict())
        super().__init__(name, Versions(node.folder, name), config, exchange)
        self.device = device_of(config.device, config.precision)
        self.module, self.loss = model.to(self.device), loss
        self.metrics = {row.name: row.compute for row in rows_of(metrics) if row.compute}
        self.by_example = config.privacy.unit == EXAMPLE
        scored = (() if self.by_example else data) if test is None else test
        self.data, self.test = self._placed(data), self._placed(scored)
        if self.by_example:
            check_hides(model)
        self.config, self.partition, self._optimizer = config, node.partition, optimizer

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say."""
        return self._answered.get(kind, self._answered["evaluate"])

    @cached_property
    def _answered(self) -> dict[str, Instruction]:
        most, steps = self.config.num_rounds, Whole(0, self.config.visit_steps(self.count()))
        scored = task(most, optional={"keep": YES_NO})
        return {"query": query(most), "evaluate": scored, "train": task(most, {"steps": steps})}

    def get_properties(self, config: Config) -> dict[str, Any]:
        """Who this is; with resume-round, private state newer than that round is dropped."""
        self.roll_back(config)
        return {
            "partition": self.partition,
            "name": self.name,
            "num-examples": self.count(),
        }

    def count(self) -> int:
        """Training examples."""
        return len(self.data[-1])

    def optimizer(self) -> Optimizer:
        """A fresh one."""
        return self._optimizer(self.module.parameters(), self.config.training.learning_rate)

    def evaluate(self, parameters: Parameters, config: Config) -> Scored:
        """Loss and metrics of the server's model, or the own one, and the number of examples; keep: what came is kept."""
        received = named_arrays(parameters, config)
        if config.get("keep"):
            self.keep_start(received)
            return 0.0, 0, {}
        count = len(self.test[-1]) if self.test else 0
        if not count:
            return 0.0, 0, {}
        load_arrays(self.module, self.scored(received, config))
        self.module.eval()
        with torch.no_grad():
            parts = zip(*(t.split(ROWS) for t in self.test[:-1]), strict=True)
            outputs, targets = torch.cat([self.module(*part) for part in parts]), self.test[-1]
            scores = {k: float(score(outputs, targets)) for k, score in self.metrics.items()}
            return float(self.loss(outputs, targets)), count, scores

    def train(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> dict[str, float]:
        """The mean loss of the steps; randomness, dropout's too, comes from (seed, round, partition, stream).

        Under privacy of single examples that of gradients comes from where their noise does.
        """
        seed = self._seed(number, stream)
        with self._drawing():
            torch.default_generator.manual_seed(seed)  # torch.manual_seed takes 3 ms
            if self.device == "cuda":
                torch.cuda.manual_seed_all(seed)
            if self.by_example:
                return self._train_privately(optimizer, steps, number, gradients, stream)
            total = torch.zeros((), device=self.device)
            parameters = dict(self.module.named_parameters())
            for _, batch in zip(range(steps), self.batches(number, stream), strict=False):
                loss = self.loss(self.module(*batch[:-1]), batch[-1])
                total += loss.detach()
                loss.backward()
                gradients.shape(parameters)
                optimizer.step()
                optimizer.zero_grad()
            return {"steps": steps, "loss": float(total) / max(steps, 1)}

    def lessons(self, number: int, stream: str) -> TorchLessons:
        """The same mini-batches and random numbers, one by one."""
        batches, seed = self.batches(number, stream), self._seed(number, stream)
        loss = lambda *batch: self.loss(self.module(*batch[:-1]), batch[-1])  # noqa: E731
        return TorchLessons(batches, loss, self._drawing, seed)

    def _seed(self, number: int, stream: str) -> int:
        rng = rng_for(self.config.seed, "local training" + stream, number, self.partition)
        return int(rng.integers(2**63))

    def _train_privately(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> dict[str, float]:
        """Steps of DP-SGD; losses, which would have no noise, are told to nobody."""
        buffers = dict(self.module.named_buffers())
        trained = {k: p for k, p in self.module.named_parameters() if p.requires_grad}

        def loss(parameters: dict[str, Tensor], *example: Tensor) -> Tensor:
            one = tuple(part[None] for part in example)
            return self.loss(functional_call(self.module, (parameters, buffers), one[:-1]), one[-1])

        visit = begin_visit(
            self.config.privacy, self.private.folder, number, steps,
            self.config.training.batch_size, self.count(),
            lambda: rng_for(self.config.seed, "private steps" + stream, number, self.partition),
        )  # fmt: skip
        for _ in range(steps):
            rows = torch.from_numpy(visit.rows()).to(self.device)
            now = {k: p.detach() for k, p in trained.items()}
            found = visit.gradients(loss, now, tuple(t[rows] for t in self.data))
            for name, parameter in trained.items():
                parameter.grad = found[name]
            gradients.shape(trained)
            optimizer.step()
            optimizer.zero_grad()
        return {"steps": steps, EPSILON: visit.epsilon}

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """torch's random numbers of everybody else are afterwards where they were."""
        if self.device == "cuda":
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                yield
            return
        before = torch.get_rng_state()  # fork_rng takes three times as long
        try:
            yield
        finally:
            torch.set_rng_state(before)

    def batches(self, number: int, stream: str) -> Iterator[Examples]:
        """Mini-batches without end, shuffled for every pass; the last of a pass may be smaller."""
        rng = rng_for(self.config.seed, "mini-batches" + stream, number, self.partition)
        size = self.config.training.batch_size
        while True:
            order = torch.from_numpy(rng.permutation(len(self.data[-1]))).to(self.device)
            for rows in order.split(size * self.at_once):
                yield from zip(*(t[rows].split(size) for t in self.data), strict=True)

    @cached_property
    def at_once(self) -> int:
        """Mini-batches that are gathered in one go; one where the next would not begin at a multiple of 64 bytes."""
        size = self.config.training.batch_size
        bytes_of = [size * math.prod(t.shape[1:]) * t.element_size() for t in self.data]
        factors = (t.dtype.is_floating_point or t.dtype.is_complex for t in self.data)
        if any(n % _ALIGNED for n, matters in zip(bytes_of, factors, strict=True) if matters):
            return 1
        return max(1, GATHERED_BYTES // max(1, sum(bytes_of)))

    def _placed(self, examples: Examples) -> Examples:
        return tuple(t.to(self.device) for t in examples)
