"""A client that trains a torch module on its own data, as its LocalMethod and its Exchange say.

What leaves the client: the share of what it has trained, coded if there is a codec; the state of its optimizer where that
is handed on; with control variates how much the own one changed; the number of its examples and the method's report. All
else stays here, by round:

  agent.      what the exchange keeps of the model
  optimizer.  state of the optimizer, of a further training of the visit under its name ("optimizer own.")
  control.    the own control variates
  method.     what the method keeps
  residual.   what the codec left out so far
"""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch.optim import Optimizer

from clients.keeping import KeepingClient
from clients.numpy_client_app import Config, Fitted, Parameters, named_arrays, named_reply
from clients.side_by_side import Ask, aside
from clients.trainings import Lessons, Trainings
from fedsuite.arrays import (
    LARGEST_COUNT,
    Arrays,
    non_finite,
    range_complaint,
    under_prefix,
    with_prefix,
)
from fedsuite.averaging.beside import BESIDE
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.correction import Correction
from fedsuite.averaging.exchange import RESIDUAL, Exchange
from fedsuite.averaging.gradients import Gradients
from fedsuite.averaging.local_method import Visit
from fedsuite.averaging.local_methods import chosen_method
from fedsuite.averaging.penalties import chosen_penalty
from fedsuite.averaging.settings import AveragingSettings
from fedsuite.runs.versions import Versions

AGENT, METHOD = "agent.", "method."
Moments = Literal["fresh", "kept", "shared"]  # state of the optimizer, from visit to visit


class LocalClient(KeepingClient):
    """`module` is a shell of the right sizes, whose weights are overwritten before every use.

    A class of it says what an optimizer and a training are, and how many examples there are. rate: the key to lower where
    training diverges.
    """

    rate = "training.learning-rate"
    module: torch.nn.Module
    ask: Ask | None = None  # who takes the steps of a visit beside others

    def __init__(
        self,
        name: str,
        private: Versions,
        settings: Any,
        exchange: Exchange,
        moments: Moments = "fresh",
    ) -> None:
        own: AveragingSettings = settings.federation
        self.settings, self.exchange, self.moments = settings, exchange, moments
        self.method = chosen_method("federation.local-method", own.local_method)
        self.penalty = chosen_penalty(
            "federation.local-penalty", own.local_penalty, own.penalty_strength
        )
        codec = exchange.codec
        forgets = own.control_variates or self.method.forgets or (codec and codec.residual)
        keeps = exchange.personal or self.method.keeps or moments == "kept" or forgets
        super().__init__(name, private, bool(keeps), bool(forgets))

    def optimizer(self) -> Optimizer:
        """A fresh one of the module's parameters."""
        raise NotImplementedError

    def train(
        self, optimizer: Optimizer, steps: int, number: int, gradients: Gradients, stream: str
    ) -> Mapping[str, float]:
        """Steps of the module in round `number`; means of what was measured, with the number of `steps`."""
        raise NotImplementedError

    def lessons(self, number: int, stream: str) -> Lessons:
        """The mini-batches of round `number`, for methods that step by themselves."""
        raise NotImplementedError(f"{type(self).__name__} has no training by steps")

    def count(self) -> int:
        """Training examples."""
        raise NotImplementedError

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """A visit of the method, from the server's model with what stays here put in.

        ValueError, and nothing is saved, if the server could not use the answer, or the client what it would keep.
        """
        received, number = named_arrays(parameters, config), int(config["round"])
        kept = aside(self.ask, lambda: self.kept_to_train(number, config))
        correction = self.correction(received, kept)
        states = {"kept": kept, "shared": received}.get(self.moments, {})
        share, steps = self.exchange.share, int(config["steps"])
        trainings = Trainings(self, number, steps, correction, states, self.moments != "fresh")
        start = self._whole(received, kept)
        own = under_prefix(kept, METHOD)
        left = self.method.train(
            Visit(start, own, steps, trainings.learn, share, self.settings, trainings.by_steps)
        )
        residual = under_prefix(kept, RESIDUAL)
        sent, residual = self.exchange.encode(start, share.select(left.sent), residual)
        private = with_prefix(self.exchange.kept(left.sent), AGENT)
        {"kept": private, "shared": sent}.get(self.moments, {}).update(trainings.after)
        private |= with_prefix(left.kept, METHOD) | with_prefix(residual, RESIDUAL)
        if correction is not None:
            private = with_prefix(correction.updated(), CONTROL) | private
            sent = sent | with_prefix(correction.change(), CONTROL)
        return aside(self.ask, lambda: self.finished(number, config, sent, left.report, private))

    def finished(
        self,
        number: int,
        config: Config,
        sent: Arrays,
        report: Mapping[str, float],
        private: Arrays,
    ) -> Fitted:
        """What `fit` returns, once what stays here is saved."""
        bad = [f"{k} is {v:g}" for k, v in report.items() if not abs(v) <= LARGEST_COUNT]
        bad += [f"{k} holds NaN or infinity" for k in non_finite(private)]
        if complaint := range_complaint(sent) or next(iter(bad), ""):
            raise ValueError(f"{self.name}: training diverged, {complaint}; lower {self.rate}")
        self.keep(number, config, private)
        return named_reply(sent, self.count(), report)

    def correction(self, received: Arrays, kept: Arrays) -> Correction | None:
        """SCAFFOLD's, from the server's control variates and the own ones; None without."""
        server = under_prefix(received, CONTROL)
        return Correction(server, under_prefix(kept, CONTROL)) if server else None

    def kept(self, before_round: int, least: int) -> Arrays:
        """The newest private version older than `before_round`, not older than `least`; {} if there is none."""
        kept = super().kept(before_round, least)
        if not kept and self.exchange.personal:
            raise self.private.missing(0)
        return kept

    def keep_start(self, model: Arrays) -> None:
        """What this client has before round 1 of a model that stays here."""
        if self.exchange.personal:
            self.private.save(0, with_prefix(self.exchange.kept(model), AGENT), {})

    def scored(self, received: Arrays, config: Config) -> Arrays:
        """The model that this client is scored with after a round: the message's, or its `export-round`."""
        kept: Arrays = {}
        number = int(config["round"])
        wanted = int(config.get("export-round", number))
        if self.exchange.personal or self.method.keeps:
            kept = self.kept_after(wanted, number, int(config.get("last-trained", 0)))
        model = self.method.scored(self._whole(received, kept), under_prefix(kept, METHOD))
        if bad := non_finite(model):
            raise ValueError(
                f"{self.name}: its own model of round {wanted} holds NaN or infinity in {bad[0]}; start the run again "
                f"under another name, with a lower {self.rate}"
            )
        return model

    def _whole(self, received: Arrays, kept: Arrays) -> Arrays:
        """The model that was received, with what stays here put in."""
        own = under_prefix(kept, AGENT)
        return {**own, **{k: v for k, v in received.items() if not k.startswith(BESIDE)}}
