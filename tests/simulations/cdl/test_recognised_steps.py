"""Frames are recognised in steps by the signs of their gradients, whatever the optimizer, unless noise is in the steps."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.findings import never_alone, recognition
from fedsuite.driving.exposure.hits import AMONG, distractors, share_among
from fedsuite.driving.exposure.recognised import Recognised, recognised, scores_of
from fedsuite.driving.exposure.told_signs import (
    Step,
    first_backbone,
    first_mixings,
    single_steps,
    sums_of_steps,
)
from fedsuite.driving.exposure.visits import BARE, ONE_FRAME, PLAIN, ExposedSilo, silos_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import initial_network
from fedsuite.privacy.findings import Finding
from fedsuite.settings.config import limits_of, with_keys
from fedsuite.settings.values import Value
from fedsuite.storage.progress import silent
from tests.cdl_runs import Played, played_once
from tests.harness import changed

OPTIMIZERS = [str(name) for name in limits_of(CDLConfig)["training.optimizer"].choices or ()]
ATTACKED = 8


def run_with(optimizer: str) -> dict[str, Any]:
    scenario = "mst" if LOCAL_OPTIMIZERS[optimizer].relays else "ring"
    # Adam's largest step is its learning rate, everybody else's is a gradient's.
    rate = 1e-3 if optimizer == "adam" else 0.01
    return {"loss": "none", "optimizer": optimizer, "scenario": scenario, "learning_rate": rate}


VARIANTS: dict[str, dict[str, Any]] = {
    **{name: run_with(name) for name in OPTIMIZERS},
    "contrastive": {},
    "summed": {"scenario": "star", "secure_sum": True},
    "noised-steps": {"unit": "example", "noise": "seeded", "loss": "none"},
    "coded": {"scenario": "star", "codec": "tests.simulations.cdl.test_followed_steps:HALVES"},
    "all-at-once": {"batch_size": 12},
    "local": {"batch_norm": "local"},
    "average": {"batch_norm": "average"},
    "fadnet": {"model": "fadnet", "image_size": 64},
    "huber": {"regression": "huber"},
}  # fmt: skip


@pytest.fixture(scope="module")
def played(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_once(cache, tmp_path_factory.mktemp("recognised"), VARIANTS)


def silos(played: Played, name: str, **keys: Any) -> list[ExposedSilo]:
    """Of a variant's run, as if it had had other settings."""
    config, folder, _ = played(name)
    return silos_of(with_keys(config, keys), folder)


def tried(exposed: list[ExposedSilo], changes: Mapping[str, Value]) -> list[Recognised]:
    return recognised(exposed, single_steps(exposed, ATTACKED, changes))


def found_in(played: Played, name: str) -> list[Finding]:
    config, folder, _ = played(name)
    return [*recognition(config, folder, 0, silent, quick=True)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_no_optimizer_hides_the_frame_of_a_step(played: Played, name: str) -> None:
    made = tried(silos(played, name), ONE_FRAME)
    assert all(r.found and r.area == 1 for r in made)
    assert {(len(r.frames), len(r.others), r.chance) for r in made} == {(1, 11, 1 / 12)}


def test_a_score_is_the_cosine_of_signs(played: Played) -> None:
    """Computed anew, one frame at a time, with the loss written out."""
    silo = silos(played, "adam")[2]
    visit = silo.visit({}, 1)
    network = initial_network(silo.config).eval()
    network.load_state_dict({k: torch.tensor(v) for k, v in silo.backbone.items()})
    weights = dict(network.named_parameters())

    def signs_of(image: np.ndarray, angle: float) -> np.ndarray:
        network.zero_grad()
        answer = network(torch.from_numpy(np.array(image)).float()[None]).predictions[0]
        ((answer - float(angle)) ** 2).backward()
        parts = [weights[k].grad for k in weights]
        return np.concatenate([np.sign(g.numpy().ravel()) for g in parts if g is not None])

    seen = np.concatenate([visit.signs(k).ravel() for k in weights])
    assert set(np.unique(seen)) <= {-1.0, 0.0, 1.0} and len(seen) > 10_000
    every = silo.silo.train  # those of the step and others
    own = [signs_of(i, a) for i, a in zip(every.images, every.angles, strict=True)]
    expected = [s @ seen / np.sqrt((s != 0).sum() * (seen != 0).sum()) for s in own]
    assert min(expected) < -0.01
    step, alone = (
        Step(seen.astype(np.int8), {2: frames}) for frames in (visit.frames, first(visit.frames))
    )
    scores = scores_of(silo, every, [step, alone])
    assert scores[:, 0] == pytest.approx(np.array(expected), abs=1e-3)
    assert scores[:, 1] == pytest.approx(np.abs(expected), abs=1e-3)  # dropout may turn them


def first(frames: Frames) -> Frames:
    return Frames(frames.images[:1], frames.angles[:1])


def test_of_a_step_of_several_one_is_mostly_found(played: Played) -> None:
    made = tried(silos(played, "contrastive"), {})
    assert {(len(r.frames), len(r.others)) for r in made} == {(4, 8)}
    assert np.mean([r.found for r in made]) > 4 / 12 and np.mean([r.area for r in made]) > 0.5


def test_frames_that_were_not_in_the_step_are_no_more_alike_than_others(played: Played) -> None:
    """The attack fails where it must: on steps of the same silos in which other frames were."""
    exposed = silos(played, "adam")
    steps = single_steps(exposed, ATTACKED, ONE_FRAME)
    assert len({step.signs.tobytes() for step in steps}) == ATTACKED
    shifted = [
        replace(step, frames={place: distractors(exposed[place], step.frames[place], 90 + n, 1)})
        for n, step in enumerate(steps)
        for place in step.frames
    ]
    assert sum(r.found for r in recognised(exposed, shifted)) <= 1


def test_what_is_found_is_the_highest_of_all_and_an_area_that_of_all_pairs() -> None:
    two = Recognised(np.array([0.3, 0.1]), np.array([0.2, 0.25, 0.05]))
    assert two.found and two.area == pytest.approx(4 / 6) and two.chance == 2 / 5
    assert not replace(two, others=np.array([0.3])).found  # no better than another
    assert replace(two, others=np.array([])).found


def test_silos_without_an_attacked_step_are_passed_over(played: Played) -> None:
    exposed = silos(played, "adam")
    steps = single_steps(exposed, 2, ONE_FRAME)
    assert [*map(list, (s.frames for s in steps))] == [[0], [1]] and len(exposed) == 4
    assert all(r.found for r in recognised(exposed, steps))


def test_a_sum_tells_less_than_a_step(played: Played) -> None:
    exposed = silos(played, "summed")
    steps = sums_of_steps(exposed, ATTACKED, PLAIN, None)
    assert all({*step.frames} == {0, 1, 2, 3} for step in steps)
    many, one = recognised(exposed, steps), tried(exposed, PLAIN)
    assert {(len(r.frames), len(r.others)) for r in many} == {(4, 44)}
    assert np.mean([r.area for r in many]) < np.mean([r.area for r in one]) == 1
    found = found_in(played, "summed")
    assert [(f.target, f.measure) for f in found] == [
        ("a frame, from a sum of plain steps of one frame", "share found among 44 others"),
        ("a frame, from a sum of steps of one frame with adam", "share found among 44 others"),
        ("one frame, from a sum of steps as sent (1 x 4 frames, adam)", "share found among 32 others"),
        ("any frame, from a sum of steps as sent (1 x 4 frames, adam)", "AUC"),
    ]  # fmt: skip
    assert all(f.counts for f in found), found
    assert [f.undefended for f in found[:2]] == [1.0, 1.0]
    assert [f.chance for f in found] == pytest.approx([4 / 48, 4 / 48, 16 / 48, 0.5])


def test_what_a_sum_tells_is_the_sign_of_the_mean_change(played: Played) -> None:
    exposed = silos(played, "summed")
    step = sums_of_steps(exposed, 1, {}, None)[0]
    visits = [silo.visit({}, 0) for silo in exposed]
    names = [k for k, _ in initial_network(exposed[0].config).named_parameters()]
    changes = [
        np.concatenate([(v.after[k].astype(np.float64) - v.before[k]).ravel() for k in names])
        for v in visits
    ]
    mean = np.mean(changes, axis=0)
    large = np.abs(mean) > 1e-6  # than what the sum is rounded by
    assert large.mean() > 0.5 and (step.signs[large] == -np.sign(mean[large])).all()


def test_a_neighbour_recognises_frames_of_the_first_step(played: Played) -> None:
    """Adam begins with a step of signs, which the mean of two backbones hides no more than their gradients."""
    exposed = silos(played, "adam")
    start = first_backbone(exposed[0].config)
    steps = first_mixings(exposed, ATTACKED, ONE_FRAME)
    assert [*(list(s.frames) for s in steps[:4])] == [[1], [2], [3], [0]]
    assert all(r.found for r in recognised(exposed, steps, start))
    names = [k for k, _ in initial_network(exposed[0].config).named_parameters()]
    theirs = exposed[1].visit(ONE_FRAME, 0, start)
    signs = np.concatenate(
        [np.sign(start[k].astype(np.float64) - theirs.after[k]).ravel() for k in names]
    )
    told = steps[0].signs != 0
    assert (steps[0].signs[told] == signs[told]).mean() > 0.999
    assert 0.9 < told.sum() / (signs != 0).sum() <= 1.01


def test_who_has_no_single_neighbour_is_not_attacked_by_one(played: Played) -> None:
    attackers = {
        name: [f.attacker for f in found_in(played, name)] for name in ("contrastive", "summed")
    }
    assert attackers == {
        "contrastive": [*["server"] * 4, *["neighbour"] * 2],
        "summed": ["server"] * 4,
    }


def test_noise_in_every_step_hides_its_frames(played: Played) -> None:
    keys = {"privacy.noise-multiplier": 1e-15, "privacy.clip": 1e3}
    assert all(r.found for r in tried(silos(played, "noised-steps", **keys), ONE_FRAME))
    assert sum(r.found for r in tried(silos(played, "noised-steps"), ONE_FRAME)) <= 3
    found = found_in(played, "noised-steps")
    assert all(f.counts for f in found), found
    assert [f.undefended for f in found[:2]] == [1.0, 1.0]
    assert found[3].measure == "AUC" and found[3].value < found[3].undefended
    neighbour = found[4]
    assert neighbour.attacker == "neighbour" and neighbour.value < neighbour.undefended == 1


def test_what_a_codec_leaves_out_tells_nothing(played: Played) -> None:
    """Half of all changes arrive, which is enough."""
    exposed = silos(played, "coded")
    network = initial_network(exposed[0].config)
    for changes in PLAIN, ONE_FRAME:
        visit = exposed[0].visit(changes, 0)
        for name, parameter in network.named_parameters():
            half = len(parameter) // 2
            assert not visit.signs(name)[half:].any()
            assert half == 0 or visit.signs(name)[:half].any()
    assert all(r.found for r in tried(exposed, PLAIN))


def test_without_another_frame_none_is_looked_for(played: Played) -> None:
    """A silo's step takes all that it has."""
    found = found_in(played, "all-at-once")
    assert [f.target for f in found] == [
        "a frame, from a plain step of one frame",
        "a frame, from a step of one frame with adam",
        "a frame, from the mean of two backbones at the first mixing, after a step of one frame with adam",
    ]


@pytest.mark.parametrize("name", ["local", "average", "fadnet", "huber"])
def test_every_network_and_loss_is_attacked(played: Played, name: str) -> None:
    """Also one whose features nobody could have by division."""
    found = found_in(played, name)
    assert len(found) == 6 and all(f.counts for f in found), found
    assert [f.value for f in found[:2]] == [1.0, 1.0]


def test_a_network_that_takes_no_single_frame_is_left_out(played: Played) -> None:
    config, folder, _ = played("contrastive")
    small, told = changed(config, image_size=32, batch_norm="average"), list[str]()
    assert [*recognition(small, folder, 0, lambda text, *_: told.append(text), True)] == []
    assert told == [f"recognition: left out, {never_alone(small)}"] and "32 pixels" in told[0]
    assert never_alone(config) == ""


def test_others_are_training_frames_of_the_silo_that_are_not_in_the_step(played: Played) -> None:
    silo = silos(played, "adam")[0]
    frames = silo.visit({}, 0).frames
    others = distractors(silo, frames, 0, AMONG)
    train = {image.tobytes() for image in silo.silo.train.images}
    apart = {image.tobytes() for image in others.images}
    assert apart <= train and not apart & {image.tobytes() for image in frames.images}
    assert len(others) == 8 and len(distractors(silo, frames, 0, 3)) == 3
    assert share_among([8, 8]) == "share found among 8 others"
    assert share_among([7, 9, 8]) == "share found among 7 to 9 others"


def test_a_finding_is_the_share_of_attacked_steps(played: Played) -> None:
    exposed = silos(played, "contrastive")
    plain, one, own, *_ = found_in(played, "contrastive")
    for found, changes in (plain, PLAIN), (one, ONE_FRAME), (own, {}):
        made = recognised(exposed, single_steps(exposed, found.n, changes))
        assert found.value == np.mean([r.found for r in made]) and found.low <= found.value
        assert found.chance == pytest.approx(np.mean([r.chance for r in made]))
        assert found.attacker == "server" and np.isnan(found.undefended)
    control = recognised(exposed, single_steps(exposed, plain.n, BARE))
    assert plain.control == np.mean([r.found for r in control]) == 1
