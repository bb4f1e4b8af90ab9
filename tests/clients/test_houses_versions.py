"""Which versions of its own agent a house keeps on its disk: those that a resume or the end of the run can ask for."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from clients.house import HouseClient
from clients.house_base import HouseClientBase, HouseSite
from fedsuite.errors import InputError
from fedsuite.runs.versions import Versions
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.metrics import as_metrics
from fedsuite.vln.training.learner import TrainingReport
from tests.harness import changed

EXPLORE = changed(
    FedVLNConfig(), stage="pre-explore", share="language-encoder", client_optimizer="kept"
)


def member(folder: Path, config: FedVLNConfig = EXPLORE) -> HouseClientBase:
    """A house without data: it only keeps things."""
    site = HouseSite(0, "oak", (), None, Versions(folder), folder)  # type: ignore[arg-type]
    return HouseClientBase(site, config)


def trained(
    house: HouseClientBase,
    number: int,
    config: dict[str, object],
    weight: float | None = None,
    gradient_norm: float = 1.0,
) -> None:
    """The end of a visit in round `number`; the agent's only weight is the round, or else `weight`."""
    weights = np.full((1, 1), number if weight is None else weight, np.float32)
    report = as_metrics(TrainingReport(1, 0.5, 0.5, gradient_norm, 4))
    optimizer = {"optimizer.square_avg.weight": weights, "optimizer.step": np.int64(1)}
    private = optimizer if house.moments == "kept" else {}
    private |= {"agent.weight": weights} if house.exchange.personal else {}
    house.finished(number, config, {"weight": weights}, report, private)


def weight_before(house: HouseClientBase, number: int) -> int:
    """The weight of the newest version older than `number`."""
    return int(house.kept(number, 0)["agent.weight"].item())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("every", [1, 2, 3])
def test_the_best_agent_as_of_every_checkpoint_is_still_there(
    tmp_path: Path, seed: int, every: int
) -> None:
    """Whatever a resume at one of the last two checkpoints then asks for; twin: a list of all visits."""
    rng, house = random.Random(seed), member(tmp_path)
    visits, best, checkpoints = [0], 0, {0: 0}
    house.site.private.save(0, {"agent.weight": torch.zeros(1, 1).numpy()}, {})
    for number in range(1, 25):
        if rng.random() < 0.6:
            needed = sorted(checkpoints)[-2:]
            told = {"best-round": best, "checkpoint-rounds": ",".join(map(str, needed))}
            trained(house, number, told)
            visits.append(number)
            for checkpoint in needed:
                for asked in (checkpoint, checkpoints[checkpoint], best, number):
                    want = max(v for v in visits if v <= asked)
                    assert weight_before(house, asked + 1) == want
            assert len(house.site.private.rounds()) <= 2 * len(needed) + 2
        if rng.random() < 0.4:
            best = number
        if number % every == 0:
            checkpoints[number] = best


def test_without_a_choice_only_checkpoints_are_kept(tmp_path: Path) -> None:
    house = member(tmp_path)
    for number in range(1, 8):
        trained(house, number, {"checkpoint-rounds": f"{max(0, number - 2)},{number - 1}"})
    assert house.site.private.rounds() == [5, 6, 7]


def test_nothing_is_kept_where_nothing_is_private(tmp_path: Path) -> None:
    house = member(tmp_path, changed(FedVLNConfig(), stage="train", client_optimizer="fresh"))
    trained(house, 1, {"checkpoint-rounds": "0"})
    assert house.site.private.rounds() == [] and house.kept(2, 0) == {}
    house = member(tmp_path, changed(FedVLNConfig(), stage="train", client_optimizer="kept"))
    trained(house, 1, {"checkpoint-rounds": "0"})
    assert set(house.kept(2, 0)) == {"optimizer.square_avg.weight", "optimizer.step"}


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ({"weight": float("nan")}, "array weight holds NaN or infinity"),
        ({"weight": -2e6}, r"array weight holds -2e\+06, more than 1e\+06 in size"),
        ({"gradient_norm": float("inf")}, "gradient-norm is inf"),
    ],
)
def test_a_visit_that_diverged_leaves_no_trace(
    tmp_path: Path, spoilt: dict[str, float], told: str
) -> None:
    house = member(tmp_path)
    trained(house, 1, {"checkpoint-rounds": "0"})
    with pytest.raises(ValueError, match=f"oak: training diverged, {told}.*lower objective"):
        trained(house, 2, {"checkpoint-rounds": "0"}, **spoilt)
    assert house.site.private.rounds() == [1] and weight_before(house, 3) == 1


def test_what_is_kept_is_looked_at_where_nothing_is_sent(tmp_path: Path) -> None:
    house, spoilt = member(tmp_path), {"optimizer.square_avg.weight": np.float32([np.inf])}
    report = as_metrics(TrainingReport(1, 0.5, 0.5, 1.0, 4))
    with pytest.raises(ValueError, match=r"optimizer\.square_avg\.weight holds NaN or infinity"):
        house.finished(1, {"checkpoint-rounds": "0"}, {}, report, spoilt)
    assert house.site.private.rounds() == []


@pytest.mark.parametrize("controlled", [False, True])
def test_after_a_lost_answer_the_house_goes_on_or_with_control_variates_forgets(
    tmp_path: Path, controlled: bool
) -> None:
    """It trains in rounds 1 to 3, of which the last is lost, and again in round 6; a resume goes back to round 5."""
    house = member(tmp_path, changed(EXPLORE, control_variates=controlled))
    for number, last in ((1, 0), (2, 1), (3, 2)):
        trained(house, number, {"checkpoint-rounds": "0,2", "last-trained": last, "best-round": 2})
    counts = 2 if controlled else 3
    for wanted, want in ((5, counts), (4, counts), (3, counts), (2, 2)):
        assert house.kept_after(wanted, 5, 2)["agent.weight"].item() == want
    told = {"checkpoint-rounds": "4,5", "last-trained": 2}
    assert house.kept_to_train(6, told)["agent.weight"].item() == counts
    trained(house, 6, told)
    assert house.site.private.rounds() == [counts, 6]
    house.get_properties({"resume-round": 5})
    assert house.kept_to_train(6, told)["agent.weight"].item() == counts


def test_an_agent_that_is_not_finite_is_no_result(tmp_path: Path) -> None:
    site, model = member(tmp_path).site, nn.Linear(1, 1, bias=False)
    house = HouseClient(site, EXPLORE, model)  # type: ignore[arg-type]
    asked = {"round": 1, "export-round": 1, "last-trained": 1, "array-names": "", "score": False}
    for number in (1.0, float("nan")):
        site.private.save(1, {"agent.weight": np.full((1, 1), number, np.float32)}, {})
        if number == 1:
            assert house.evaluate([], asked) == (0.0, 0, {})
            (tmp_path / "model.safetensors").unlink()
            continue
        with pytest.raises(ValueError, match="oak: its own model of round 1 holds NaN"):
            house.evaluate([], asked)
    assert not (tmp_path / "model.safetensors").exists()


def test_a_resume_drops_later_versions(tmp_path: Path) -> None:
    house = member(tmp_path)
    for number in (1, 2, 3):
        trained(house, number, {"checkpoint-rounds": "1,2"})
    properties = house.get_properties({"resume-round": 2})
    assert house.site.private.rounds() == [1, 2]
    assert properties == {
        "partition": 0, "name": "oak", "num-examples": 0, "training-houses": 0, "local-steps": 0, "unseen": 0,
    }  # fmt: skip


def test_a_house_that_has_trained_must_find_what_it_kept(tmp_path: Path) -> None:
    """Unless it keeps nothing at all."""
    for kind, keeps in (("kept", True), ("fresh", False)):
        house = member(
            tmp_path / kind, changed(FedVLNConfig(), stage="train", client_optimizer=kind)
        )
        trained(house, 1, {"checkpoint-rounds": "0"})
        assert bool(house.kept(2, 1)) == keeps
        house.site.private.rollback(0)
        if not keeps:
            assert house.kept(2, 1) == {}
            continue
        with pytest.raises(
            InputError, match=r"missing private state of .* trained in round 1; put"
        ):
            house.kept(2, 1)
