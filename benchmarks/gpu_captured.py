"""On a GPU: decisions of the published agent whose kernels are replayed from a CUDA graph, over launching them one by one,
for houses one after another and stacked.

    python -m benchmarks.gpu_captured [--device cuda] [--houses 1 4 12] [--rows 64] [--decisions 8]

Of every house `rows` episodes take `decisions` decisions each (views of width 2048, 80 words, 8 candidates), with
cross-entropy against random actions and the gradient of the decoder: that part of an optimizer step which has most of the
kernels. Shapes are fixed, as a graph asks for: nobody leaves the batch and no dropout is drawn. Words, optimizer and
environment are left out. `fused` is launching with torch's one kernel for the LSTM cell, which CPUs do not have, in place
of the dozen forward and two dozen backward of `cell_update`. torch.compile is not among the ways: on a CPU it refuses the
products of oneDNN (fedsuite/vln/model/products.py), and on a GPU it is untried.

Printed for every way: milliseconds of one house, and how far its gradients are from those of launched houses one by one,
over their size. The result is one house after another captured, over stacked and launched, of the largest number of
houses: below 1 a graph is the better of the two. On a CPU nothing is captured, and the result is stacked over one by one.
"""

import argparse
from collections.abc import Callable, Sequence
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.gpu_steps import seconds
from benchmarks.report import finish
from fedsuite.settings.devices import check_device, device_of
from fedsuite.vln.model import agent as agent_module
from fedsuite.vln.model.agent import Agent, AgentSizes, Panorama, build_agent
from fedsuite.vln.model.attention import SharedContext
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.gathered import Gathered
from fedsuite.vln.model.stacked import StackedAgent

SIZES = AgentSizes(vocabulary=992, feature=2048)
WORDS, CANDIDATES, VIEWS, GOAL = 80, 8, 36, 1.0
Work = Callable[[], Sequence[Tensor]]


class Decisions:
    """The same episodes for every house, every time."""

    def __init__(self, agents: Sequence[Agent], rows: int, decisions: int) -> None:
        device = next(agents[0].parameters()).device
        draw = torch.Generator(device).manual_seed(0)

        def some(*shape: int) -> Tensor:
            return torch.rand(rows, *shape, generator=draw, device=device)

        self.agents = agents
        self.decoded = [p for agent in agents for p in agent.decoder.parameters()]
        self.start = some(WORDS, SIZES.hidden), some(SIZES.hidden), some(SIZES.hidden)
        absent = torch.zeros(rows, CANDIDATES, dtype=torch.bool, device=device)
        absent[:, -2:] = True
        self.seen = [
            Panorama(
                some(VIEWS, SIZES.feature), some(VIEWS, 4), some(CANDIDATES, SIZES.feature),
                some(CANDIDATES, 4), absent, some(4), absent.long(),
            )
            for _ in range(decisions)
        ]  # fmt: skip
        self.label = some(decisions).mul(CANDIDATES - 1).long()

    def single(self) -> Sequence[Tensor]:
        """Gradients of the decoders, one house after another."""
        losses = [self._loss(agent.decoder, 1) for agent in self.agents]
        return torch.autograd.grad(losses, self.decoded)

    def stacked(self) -> Sequence[Tensor]:
        """The same, of all houses at once."""
        together = StackedAgent(self.agents)
        return torch.autograd.grad(self._loss(together.decoder, len(self.agents)), self.decoded)

    def _loss(self, decoder: nn.Module, houses: int) -> Tensor:
        context, state, cell = (x.repeat(houses, *[1] * (x.dim() - 1)) for x in self.start)
        padding = torch.zeros(context.shape[:2], dtype=torch.bool, device=context.device)
        language, gathered, losses = SharedContext(context, padding), Gathered(), list[Tensor]()
        label = self.label.repeat(houses, 1)
        for time, one in enumerate(self.seen):
            own = {k: x.repeat(houses, *[1] * (x.dim() - 1)) for k, x in vars(one).items()}
            told = (Panorama(**own), state, cell, language, NO_DROPOUT, gathered)
            logits, _, cell, state = decoder(*told)
            losses.append(cross_entropy(logits, label[:, time], reduction="none").sum())
        return torch.stack(losses).sum()


def captured(work: Work) -> Work:
    """`work` as one CUDA graph; what it returns is overwritten by the next call."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = work()

    def replay() -> Sequence[Tensor]:
        graph.replay()
        return found

    return replay


def fused(work: Work) -> Work:
    """`work` with torch's own kernel for h, c from an LSTM cell's gates."""

    def cell_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell, _ = torch.ops.aten._thnn_fused_lstm_cell(gates, torch.zeros_like(gates), cell)
        return hidden, cell

    def run() -> Sequence[Tensor]:
        with patch.object(agent_module, "cell_update", cell_update):
            return work()

    return run


def distance(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """|found - expected| / |expected|, of all gradients together."""
    off = torch.stack([(a - b).square().sum() for a, b in zip(found, expected, strict=True)]).sum()
    return float(off.sqrt() / torch.stack([b.square().sum() for b in expected]).sum().sqrt())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--houses", type=int, nargs="+", default=[1, 4, 12])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--decisions", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    check_device(given.device)
    device = device_of(given.device)
    torch.set_num_threads(1)
    details: dict[str, float] = {}
    for number in given.houses:
        agents = [build_agent(SIZES, seed).to(device) for seed in range(number)]
        work = Decisions(agents, given.rows, given.decisions)
        kinds = {"single": work.single, "stacked": work.stacked}
        ways: dict[str, Work] = {f"{kind}-launched": way for kind, way in kinds.items()}
        if device != "cpu":
            for name, change in {"captured": captured, "fused": fused}.items():
                ways |= {f"{kind}-{name}": change(way) for kind, way in kinds.items()}
        expected = [g.clone() for g in work.single()]
        for name, way in ways.items():
            off = distance(way(), expected)
            taken = 1000 * seconds(way, given.repeats, device) / number
            print(f"{number} houses, {name}: {taken:.3g} ms a house, gradients {off:.1e} apart")
            details |= {f"{name}-{number}-ms": round(taken, 3), f"{name}-{number}-off": off}
    last = max(given.houses)
    best = "single-captured" if device != "cpu" else "single-launched"
    pair = (f"{best}-{last}-ms", f"stacked-launched-{last}-ms")
    one, other = (details[k] for k in (pair if device != "cpu" else pair[::-1]))
    where = torch.cuda.get_device_name() if device != "cpu" else "cpu"
    finish("gpu_captured", one / other, GOAL, device=where, **details)


if __name__ == "__main__":
    main()
