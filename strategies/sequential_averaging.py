"""Houses train one after the other: what the published FedVLN numbers came from, in two forms that combine.

in_turn: client k starts from the model that its predecessor moved, w <- w + eta p_k (w_k - w) for k in turn (the official
release). hands_on: every client starts from the optimizer state that its predecessor left; without in_turn all still start
from the round's w, and the server merges as FedAvg does.
"""

from dataclasses import dataclass, replace

from fedsuite.arrays import LARGEST_COUNT, Arrays, under_prefix, with_prefix
from fedsuite.averaging.beside import OPTIMIZER
from fedsuite.averaging.merging import ServerStep, mean, server_step
from fedsuite.averaging.stored import picked
from fedsuite.federation import (
    ClientInfo,
    Clients,
    Exchanges,
    Reply,
    RoundResult,
    ServerState,
    Task,
)
from strategies.chains import ChainEnd, trainers, weights_of, weights_of_chains
from strategies.house_averaging import HouseAveraging
from strategies.language_encoder_fedavg import LanguageEncoderFedAvg
from strategies.runtime.bookkeeping import RATE
from strategies.steps import PARTICIPATION, Steps


@dataclass(frozen=True)
class SequentialAveraging(HouseAveraging):
    """Server side. The state of an optimizer that is handed on stands in `ServerState.optimizer`."""

    in_turn: bool = True
    hands_on: bool = False

    def train(self, number: int, state: ServerState, clients: Clients) -> Exchanges:
        """One exchange per participant; one that is lost moves nothing and is passed over."""
        steps = Steps(self.seed, number, state, self.remembers)
        chosen = self.participation(steps.of(PARTICIPATION), trainers(clients))
        weights = weights_of(chosen, self.max_share)
        step = ServerStep(float(state.scalars[RATE]))
        model, optimizer = state.arrays, state.optimizer
        replies: list[Reply] = []
        for client in chosen:
            for reply in (
                yield [replace(self._handed(client, model, optimizer), in_turn=len(chosen))]
            ):
                optimizer = under_prefix(reply.arrays, OPTIMIZER)
                local = picked(reply.arrays, model)
                replies.append(replace(reply, arrays=local))
                if self.in_turn:
                    delta = mean(model, [local], [weights[client.partition]])
                    model, _ = server_step(model, delta, step)
        if not self.in_turn:
            ends = [ChainEnd(r.arrays, (r,)) for r in replies]
            shares = weights_of_chains(chosen, ends, self.max_share)
            model, _ = server_step(model, mean(model, [r.arrays for r in replies], shares), step)
        metrics = self._metrics(state.arrays, model, replies, chosen) | steps.metrics
        after = replace(state, arrays=model, optimizer=optimizer, rules=steps.kept(replies))
        return RoundResult(after, metrics)

    def _handed(self, client: ClientInfo, model: Arrays, optimizer: Arrays) -> Task:
        task = self._task(client, model)
        if not self.hands_on:
            return task
        squares, step = with_prefix(model, f"{OPTIMIZER}square_avg."), f"{OPTIMIZER}step"
        wanted = model | squares
        return replace(
            task,
            arrays=model | with_prefix(optimizer, OPTIMIZER),
            returns={k: v.shape for k, v in wanted.items()} | {step: ()},
            types={k: str(v.dtype) for k, v in wanted.items()} | {step: "int64"},
            ranges={**task.ranges, step: (1, LARGEST_COUNT)},
            not_negative=tuple(squares),
        )


@dataclass(frozen=True)
class SequentialLanguageEncoder(SequentialAveraging, LanguageEncoderFedAvg):
    """Pre-exploration with personal agents whose houses train one after the other."""
