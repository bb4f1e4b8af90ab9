"""Each system on a GPU that is none: all of a run's tensors meet on one device, and nothing reads numbers off it unasked."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch

from benchmarks.pretended_graphs import PretendedGraphs
from tests.pretended_gpu import DEVICE, pretended_gpu
from tests.test_gpu import COMPARED, REPEATED, Play, apart_and_learnt, play  # noqa: F401

RUNS_ON_IT = {
    "houses, a2c, dropout": REPEATED, "houses, stacked, a2c, dropout": REPEATED, "houses, stacked, SCAFFOLD": COMPARED,
    "houses, replayed": COMPARED, "houses, replayed, a2c, dropout": REPEATED,
    "houses, replayed, sizes not in eights": REPEATED,
    "speaker, dropout": REPEATED, "roads, kl": COMPARED, "roads, kl, stacked": COMPARED, "roads, group norm": COMPARED,
    "roads, mixed on the GPU": COMPARED, "roads, tracking": COMPARED, "maps, joint": COMPARED,
    "maps, alternating": COMPARED, "texts": COMPARED,
}  # fmt: skip
# Every operator takes its time there, and a step has as many of them whatever the batch.
_FEW = {
    "num-rounds": 1, "batch-size": 32, "generated-seen-houses": 2, "generated-unseen-houses": 1, "participation-rate": 1.0,
    "max-instruction-length": 12,
}  # fmt: skip
SHORT = {
    "houses": _FEW,
    "speaker": _FEW,
    "roads": {"num-rounds": 1},
    "maps": {"num-rounds": 1},
    "texts": {"num-rounds": 1, "round-length": 16, "evaluation-episodes": 2, "maps": 40},
}
NUMBER = torch.tensor(2.0)  # of the host


@pytest.mark.slow
@pytest.mark.parametrize("case", RUNS_ON_IT)
def test_a_run_learns_there_what_it_learns_on_the_cpu(play: Play, case: str) -> None:  # noqa: F811
    name, changes = RUNS_ON_IT[case][case]
    short = {**changes, **SHORT[case.partition(",")[0]]}
    cpu = play(name, {**short, "device": "cpu"})
    with pretended_gpu() as kernels:
        far = play(name, {**short, "device": "cuda"})
    assert bool(kernels) == any(kind in case for kind in ("stacked, a2c", "SCAFFOLD", "replayed"))
    apart, learnt = apart_and_learnt(cpu, far)
    assert learnt > 0
    assert apart < 1e-3 * learnt


def test_tensors_of_two_devices_do_not_meet() -> None:
    with pretended_gpu():
        there = torch.arange(6.0, device=DEVICE)
        assert there.is_cuda and there.sum().item() == 15 and there.tolist()[5] == 5
        with pytest.raises(RuntimeError, match="on the same device"):
            there.index_select(0, torch.tensor([1]))
        with pytest.raises(RuntimeError, match="on the same device"):
            there + torch.ones(6)
        with pytest.raises(TypeError, match=r"use \.cpu\(\) first"):
            there.numpy()
        assert (there * 2 + torch.tensor(1.0)).cpu().numpy()[5] == 11  # a number may


@pytest.mark.parametrize(
    ("work", "refused"),
    [
        (lambda x: x * 2 + x.cumsum(0)[x.long()], ""),
        (lambda x: x * float(x[1]), "_local_scalar_dense"),
        (lambda x: x[x > 2], "index"),
        (lambda x: x.index_put((x > 2,), x.new_zeros(1)), "index_put"),
        (lambda x: x.repeat_interleave(x.long()), "repeat_interleave"),
        (lambda x: x.unique(), "_unique2"),
        (lambda x: x.clone().uniform_(), "uniform_"),
        (torch.rand_like, "rand_like"),
        (lambda x: x * torch.tensor([1.0] * 6, device=DEVICE), "lift_fresh"),
        (lambda x: x * NUMBER, "mul"),
        (lambda x: x.cpu(), "_to_copy"),
    ],
)
def test_what_a_graph_cannot_do_is_refused(
    work: Callable[[torch.Tensor], torch.Tensor], refused: str
) -> None:
    with pretended_gpu():
        there, graphs = torch.arange(6.0, device=DEVICE), PretendedGraphs()
        with pytest.raises(RuntimeError, match=f"^{refused} cannot") if refused else nullcontext():
            graphs(lambda: [work(there)], "place")


def test_gradients_and_draws_are_those_of_the_cpu() -> None:
    def gradient(device: str | torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        weight = torch.ones(6, device=device, requires_grad=True)
        draw = torch.Generator(device).manual_seed(3)
        drawn = torch.empty(6, device=draw.device).exponential_(1, generator=draw)
        (weight * drawn).view(2, 3)[:, 1:].square().sum().backward()
        assert weight.grad is not None
        return weight.grad.cpu(), drawn.cpu()

    here = gradient("cpu")
    with pretended_gpu():
        there = gradient(DEVICE)
    assert all(torch.equal(a, b) for a, b in zip(here, there, strict=True))
