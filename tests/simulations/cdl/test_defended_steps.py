"""An audit of CDL where something defends the run: it attacks the sum that a server has, and steps with their noise."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.driving.data.frames import Frames
from fedsuite.driving.exposure.features import sum_trials, trials
from fedsuite.driving.exposure.findings import inversion
from fedsuite.driving.exposure.pictures import attacked
from fedsuite.driving.exposure.sums import clip_of, steps_in_a_sum
from fedsuite.driving.exposure.visits import BARE, PLAIN, ExposedSilo, Visit, silos_of
from fedsuite.privacy.attacks.gradient_matching import IDLG
from fedsuite.privacy.sum_terms import CLIP
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import with_keys
from fedsuite.storage.progress import silent
from tests.cdl_runs import Played, played_once

HEAD = "trunk.head"
SUMMED: dict[str, Any] = {"scenario": "star", "secure_sum": True, "num_rounds": 1}
NOISED: dict[str, Any] = {
    **SUMMED,
    "loss": "none",
    "unit": "client",
    "noise": "seeded",
    "adaptive_clip": True,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "summed-once": SUMMED, "summed-twice": {**SUMMED, "num_rounds": 2},
    "noised-once": NOISED, "noised-twice": {**NOISED, "num_rounds": 2},
    "noised-steps": {"num_rounds": 1, "unit": "example", "noise": "seeded", "loss": "none"},
}  # fmt: skip


@pytest.fixture(scope="module")
def played(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played_once(cache, tmp_path_factory.mktemp("defended"), VARIANTS)


def silos(played: Played, name: str, **keys: Any) -> list[ExposedSilo]:
    """Of a variant's run, as if it had had other settings."""
    config, folder, _ = played(name)
    return silos_of(with_keys(config, keys), folder)


def change_of(visit: Visit) -> np.ndarray:
    parts = [visit.after[k].astype(np.float64) - visit.before[k] for k in sorted(visit.after)]
    return np.concatenate([part.ravel() for part in parts])


def flat(mean: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([mean[k].ravel() for k in sorted(mean)])


def test_a_sum_in_memory_is_the_one_that_the_server_would_have_had(played: Played) -> None:
    """After one round, the next sum leads to the model of a run of two rounds."""
    before, after = (silos(played, name)[0].backbone for name in ("summed-once", "summed-twice"))
    mean = steps_in_a_sum(silos(played, "summed-once"), {}, 0).mean
    assert mean.keys() == before.keys()
    assert max(float(np.abs(before[k] + mean[k] - after[k]).max()) for k in mean) < 1e-6
    assert max(float(np.abs(mean[k]).max()) for k in mean) > 1e-4


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sum_is_the_mean_by_frames_or_alike(played: Played, weighted: bool) -> None:
    exposed = silos(played, "summed-once", **{"federation.data-weighted": weighted})
    kept = exposed[1].silo.train
    few = dataclasses.replace(exposed[1].silo, train=Frames(kept.images[:6], kept.angles[:6]))
    exposed[1] = dataclasses.replace(exposed[1], silo=few)
    summed = steps_in_a_sum(exposed, {}, 1)
    visits, mean = summed.visits, summed.mean
    weights = [12, 6, 12, 12] if weighted else [1, 1, 1, 1]
    expected = np.average([change_of(v) for v in visits], axis=0, weights=weights)
    bound = exposed[0].config.federation.secure_sum_bound
    steps, relative = 1 << (32 - 3), sum(weights) / max(weights)
    assert float(np.abs(flat(mean) - expected).max()) <= 1.001 * bound * 4 / (steps * relative)


def test_only_runs_of_secure_sums_have_sums(played: Played) -> None:
    with pytest.raises(ValueError, match="secure-sum = true"):
        steps_in_a_sum(silos(played, "noised-steps"), {}, 0)


@pytest.mark.parametrize("clip", [None, 0.05])
def test_a_noised_sum_is_clipped_and_noised_as_members_do(
    played: Played, clip: float | None
) -> None:
    keys = {"privacy.noise-multiplier": 2.0, "privacy.clip": 0.5, "privacy.adaptive-clip": False}
    exposed = silos(played, "noised-once", **keys)
    summed = steps_in_a_sum(exposed, PLAIN, 0, clip)
    visits, mean = summed.visits, summed.mean
    norm = clip or 0.5
    changes = [change_of(visit) for visit in visits]
    clipped = [d * min(1.0, norm / float(np.linalg.norm(d))) for d in changes]
    noise = flat(mean) - np.mean(clipped, axis=0)
    fewest = 3  # of four
    assert noise.std() == pytest.approx(2.0 * norm * np.sqrt(4 / fewest) / 4, rel=0.01)
    assert abs(noise.mean()) < 5 * noise.std() / np.sqrt(noise.size)


def test_a_norm_that_adapts_is_that_of_the_next_round(played: Played) -> None:
    _, _, recorder = played("noised-twice")
    sent = [dict(m.content["config"]) for m in recorder.sent if "config" in m.content]
    later = {c[CLIP] for c in sent if CLIP in c and c["round"] == 2}
    config, folder, _ = played("noised-once")
    assert {clip_of(RunFolder(folder))} == later != {config.privacy.clip}
    assert clip_of(RunFolder(played("summed-once")[1])) is None


def test_a_sum_gives_less_away_than_a_step(played: Played) -> None:
    exposed = silos(played, "summed-once")
    one, many = trials(exposed, HEAD, 8, PLAIN), sum_trials(exposed, HEAD, 8, PLAIN)
    assert all(t.found and t.frames == 1 for t in one) and {t.frames for t in many} == {4}
    assert np.mean([t.cosine for t in many]) < 0.99 < np.mean([t.cosine for t in one])
    config, folder, _ = played("summed-once")
    found = [*inversion(config, folder, 0, silent, quick=True)]
    assert [f.target for f in found[::2]] == [
        "a frame's features, from a sum of plain steps of one frame",
        "a frame's features, from a sum of steps of one frame with adam",
        "one frame's features, from a sum of steps as sent (1 x 4 frames, adam)",
    ]
    assert all(f.counts and f.attacker == "server" for f in found)
    plain = found[0]
    assert plain.value < plain.undefended and plain.undefended > 0.9999
    few = {"share found among 44 others": 4 / 48, "share found among 32 others": 16 / 48}
    assert {f.measure: f.chance for f in found[1::2]} == pytest.approx(few)


def test_a_silo_s_own_noise_is_in_the_steps_that_are_attacked(played: Played) -> None:
    exposed = silos(played, "noised-steps")
    privacy, before = exposed[0].config.privacy, ledgers(played("noised-steps")[1])
    visit = exposed[0].visit(PLAIN, 0)
    gradient = np.concatenate([visit.gradient(k).ravel() for k in visit.after])
    assert len(visit.frames) == 1
    assert gradient.std() == pytest.approx(privacy.noise_multiplier * privacy.clip, rel=0.02)
    sizes = [len(s.visit({}, turn).frames) for s in exposed for turn in range(10)]
    assert min(sizes) >= 1 and len({*sizes}) > 2  # drawn by chance, of 4 on average
    config, folder, _ = played("noised-steps")
    found = {(f.target, f.measure): f for f in inversion(config, folder, 0, silent, quick=True)}
    assert all(f.counts for f in found.values()), found
    for way in ("a plain step of one frame", "the mean of two backbones at the first mixing"):
        told = found[f"a frame's features, from {way}", "cosine"]
        assert abs(told.value) < 0.2 and told.undefended > 0.9999
    assert ledgers(folder) == before


def test_noise_that_is_next_to_nothing_hides_nothing(played: Played) -> None:
    keys = {"privacy.noise-multiplier": 1e-15, "privacy.clip": 1e3}
    loud, quiet = silos(played, "noised-steps"), silos(played, "noised-steps", **keys)
    made = trials(quiet, HEAD, 8, BARE)
    assert all(t.found and t.angle_told for t in made) and min(t.cosine for t in made) > 0.9999
    assert not any(t.angle_told for t in trials(loud, HEAD, 8, BARE))
    few = dataclasses.replace(IDLG, steps=2)
    bare = silos(played, "noised-steps", **{"privacy.unit": "none"})
    one, same, other = (attacked(s[0], 0, few, 0) for s in (bare, quiet, loud))
    assert abs(same.ssim - one.ssim) < 1e-6 < abs(other.ssim - one.ssim)


def ledgers(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("ledger*"))}
