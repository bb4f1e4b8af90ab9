"""An audit of CDL: it attacks the very steps that silos make, finds what is there, and says what it cannot do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.exposure.features import ring_trials, trials
from fedsuite.driving.exposure.findings import (
    inversion,
    matching,
    membership,
    mixes_in_pairs,
    recognition,
    undivided,
)
from fedsuite.driving.exposure.members import LEAST_AUC, member_findings, scores_of
from fedsuite.driving.exposure.visits import BARE, PLAIN, ExposedSilo, head_of, silos_of
from fedsuite.driving.plan import initial_network
from fedsuite.errors import InputError
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.storage.progress import silent
from simulations.audits.cores import Core
from simulations.cdl.audit import attacks
from tests.cdl_runs import Played, played_once
from tests.harness import arrays_in, changed

HEAD = "trunk.head"
CORES = inversion, recognition, matching, membership
NAMES = {"inversion", "recognition", "matching", "membership"}
VARIANTS = {
    "one": {"num_rounds": 1, "silos_per_client": 2},
    "two": {"num_rounds": 2, "silos_per_client": 2},
    "local": {"num_rounds": 1, "batch_norm": "local", "silos_per_client": 2},
    "coloured": {"num_rounds": 1, "channels": 3, "train_frames": 4},
    "average": {"num_rounds": 1, "batch_norm": "average"},
    "alone": {"num_rounds": 1, "scenario": "cll", "loss": "none"},
}  # fmt: skip


@pytest.fixture(scope="module")
def played(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_once(cache, tmp_path_factory.mktemp("exposed"), VARIANTS)


def silos(played: Played, name: str = "one") -> list[ExposedSilo]:
    config, folder, _ = played(name)
    return silos_of(config, folder)


def test_a_step_in_memory_is_the_one_that_the_run_would_have_made(played: Played) -> None:
    """After one round, the next step of every silo has the arrays that a run of two rounds sent in its second."""
    _, _, recorder = played("two")
    replies = [arrays_in(m) for m in recorder.received]
    sent = [
        {k: v[row] for k, v in arrays.items()}
        for arrays in replies
        if f"{HEAD}.weight" in arrays
        for row in range(2)
    ]
    assert len(sent) == 8  # four silos, two rounds
    exposed = silos(played)
    assert [s.number for s in exposed] == [0, 1, 2, 3]
    for silo in exposed:
        visit = silo.visit({}, 0)
        nearest = min(
            max(float(np.abs(arrays[k] - visit.after[k]).max()) for k in visit.after)
            for arrays in sent[4:]
        )
        assert nearest < 1e-6
        assert (
            max(float(np.abs(visit.after[k] - visit.before[k]).max()) for k in visit.after) > 1e-4
        )
        assert len(visit.frames) == 4 and visit.updates == 1


def test_one_plain_step_gives_its_frame_away(played: Played) -> None:
    exposed = silos(played)
    for changes in (PLAIN, BARE):
        made = trials(exposed, HEAD, 8, changes)
        assert min(t.cosine for t in made) > 0.9999 and all(t.found for t in made)
        assert max(t.guessed for t in made) < 0.9999
    assert all(t.angle_told for t in trials(exposed, HEAD, 8, BARE))


def test_few_coloured_frames_are_attacked_too(played: Played) -> None:
    """A step takes all frames of a silo, so that there is none among which one could be found."""
    config, folder, _ = played("coloured")
    found = [f for core in (inversion, matching) for f in core(config, folder, 0, silent, True)]
    own = [f.measure for f in found if "as sent" in f.target]
    assert own == ["cosine"]
    assert {f.chance for f in found if f.measure == "share found among 3 others"} == {1 / 4}
    assert {f.measure for f in found} >= {"PSNR", "SSIM"} and all(f.counts for f in found)


def test_a_neighbour_on_a_ring_finds_as_much(played: Played) -> None:
    made = ring_trials(silos(played), HEAD, 4, BARE)
    assert min(t.cosine for t in made) > 0.9999 and all(t.found and t.angle_told for t in made)


def test_the_run_s_own_steps_give_less_away(played: Played) -> None:
    own = trials(silos(played), HEAD, 8, {})
    assert np.mean([t.cosine for t in own]) < 0.99 and own[0].frames == 4


def test_scores_are_the_logarithms_of_errors(played: Played) -> None:
    silo = silos(played)[0]
    frames = silo.silo.test
    predictions = silo.predictions(silo.backbone, frames)
    found = scores_of(silo, silo.backbone, frames)
    assert found == pytest.approx(-2 * np.log(np.abs(predictions - frames.angles)), rel=1e-4)


def test_the_area_is_that_of_all_pairs_of_a_member_and_another(played: Played) -> None:
    exposed = silos(played)
    members, others = (
        np.concatenate([scores_of(s, s.backbone, part(s)) for s in exposed])
        for part in (lambda s: s.silo.train, lambda s: s.silo.test)
    )
    area = np.mean([(x > others) + 0.5 * (x == others) for x in members])
    auc, tpr = member_findings(exposed, 0, 10**6, 2)
    assert auc.value == pytest.approx(area) and auc.n == tpr.n == len(members) + len(others)
    some = next(member_findings(exposed, 0, 8, 2))  # two of either kind of each silo
    assert some.n == 16
    assert some.control < LEAST_AUC < next(member_findings(exposed, 0, 8, 300)).control


def test_only_who_has_a_neighbour_can_be_read_by_one(played: Played) -> None:
    for variant, attackers in (("one", {"server", "neighbour"}), ("alone", {"server"})):
        config, folder, _ = played(variant)
        found = inversion(config, folder, 0, silent, quick=True)
        assert {f.attacker for f in found} == attackers
    config, folder, _ = played("one")
    roster = read_roster(folder / ROSTER)
    for changes, pairs in (
        ({}, True),
        ({"scenario": "mst"}, True),  # a leaf
        ({"scenario": "star"}, False),
        ({"scenario": "complete"}, False),
        ({"scenario": "local"}, False),
        ({"merge": "clipped"}, False),
        ({"scenario": "mst", "optimizer": "relay-sgd"}, False),
        ({"unit": "client"}, False),  # a server has noised what silos get
    ):
        assert mixes_in_pairs(changed(config, **changes), roster) == pairs, changes


def test_all_attacks_have_controls_that_hold(played: Played) -> None:
    config, folder, _ = played("one")
    given = config, folder, 3, silent, True
    found = [f for core in CORES for f in core(*given)]
    assert {f.attack for f in found} == set(attacks(config)) == NAMES
    assert all(np.isnan(f.undefended) for f in found)  # nothing defends this run
    sure = [f for f in found if f.attack != "membership"]
    assert all(f.counts for f in sure), [f for f in sure if not f.counts]
    assert all(f.low <= f.value <= f.high for f in found if not np.isnan(f.low))
    within = [f for f in found if f.measure != "PSNR"]
    assert all(-1 <= x <= 1 for f in within for x in (f.value, f.chance, f.control))

    again = [*membership(*given)]
    assert str(again) == str(found[-len(again) :])  # text, as no NaN equals another
    failed = [f for f in found if f.attack == "matching" and f.value < f.chance]
    assert failed and all("proves nothing" in f.note for f in failed)


@pytest.mark.parametrize("variant", ["local", "average", "alone"])
def test_networks_with_statistics_and_runs_of_one_silo_are_attacked_too(
    played: Played, variant: str
) -> None:
    config, folder, _ = played(variant)
    exposed = silos_of(config, folder)
    assert len(exposed) == (1 if variant == "alone" else 4)
    state = initial_network(config).state_dict()
    assert {k: v.shape for k, v in exposed[0].backbone.items()} == {
        k: tuple(v.shape) for k, v in state.items()
    }
    found = [f for core in CORES for f in core(config, folder, 0, silent, True)]
    assert {f.attack for f in found} == NAMES
    assert all(f.counts for f in found if f.attack != "membership"), found


def told_by(core: Core, config: CDLConfig, folder: Path) -> list[str]:
    """What is said where nothing is found."""
    told: list[str] = []
    assert [*core(config, folder, 0, lambda text, *numbers: told.append(text), True)] == []
    return told


def test_what_cannot_be_divided_is_left_out_and_says_why(played: Played) -> None:
    config, folder, _ = played("one")
    fadnet, small, kept = (
        changed(config, model="fadnet"),
        changed(config, image_size=32, batch_norm="average"),
        changed(config, share="*.conv*"),
    )
    assert head_of(initial_network(fadnet)) == ""
    for other, why in (
        (fadnet, "fadnet has no linear layer"),
        (small, "one frame of 32 pixels"),
        (kept, f"{HEAD} stays in its silo with federation.share"),
    ):
        told = told_by(inversion, other, folder)
        assert len(told) == 1 and told[0].startswith("inversion: left out, ") and why in told[0]
        assert undivided(other) in told[0]
    assert undivided(config) == ""


def test_silos_that_keep_their_state_elsewhere_cannot_be_audited(
    played: Played, tmp_path: Path
) -> None:
    config, folder, _ = played("one")
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "clients")
    with pytest.raises(InputError, match="audit a run made in simulation"):
        silos_of(config, tmp_path / "run")
    assert json.loads((folder / "run.json").read_text())["status"] == "completed"


def test_a_gradient_that_no_server_is_shown_is_not_attacked(played: Played) -> None:
    config = changed(played("one")[0], secure_sum=True)
    assert told_by(matching, config, played("one")[1]) == [
        "matching: left out, a server of secure sums is shown no silo's gradient"
    ]
