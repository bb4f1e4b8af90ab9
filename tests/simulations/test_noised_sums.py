"""Client-level privacy over secure sums: the model of the plain sum with the noise that was said, and a ledger of it."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import clients.summing
import fedsuite.driving.report.run
from fedsuite.arrays import Arrays
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import load_run
from fedsuite.privacy.guarantee import guarantee_text
from fedsuite.privacy.ledger import read
from fedsuite.privacy.noised_sums import NoisedLevels
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.unread import unread_lines
from simulations.engines.inprocess import run_inprocess
from simulations.systems import settings_of
from tests import summed_runs
from tests.simulations.test_sums_of_systems import LOST, PLAINLY_LOST
from tests.simulations.test_sums_of_systems import config_of as system_config
from tests.summed_runs import PLAIN, LosingGrid, config_of, played, run, without_masks

HIDES = {"privacy.unit": "client", "privacy.noise": "seeded", "privacy.clip": 0.4}
QUIET = {**HIDES, "privacy.noise-multiplier": 1e-4}
LOSSES: dict[str, dict[tuple[int, str], list[int]]] = {
    "nobody": {},
    "masked": {(2, "masked"): [0]},
    "each stage": {(1, "keys"): [0], (2, "shares"): [1], (2, "unmask"): [3], (3, "masked"): [2]},
}


def model_of(folder: RunFolder) -> Arrays:
    return safetensors.numpy.load_file(folder.model)


@pytest.mark.parametrize("name", LOSSES)
def test_with_hardly_any_noise_it_is_the_model_of_a_server_that_clips(
    tmp_path: Path, name: str
) -> None:
    """Whoever is lost: the sum is divided by the number that was expected."""
    summed = run(tmp_path, "summed", LOSSES[name], **QUIET)
    usual = {(r, "train"): who for (r, stage), who in LOSSES[name].items() if stage != "unmask"}
    plain = run(tmp_path, "plain", usual, **QUIET, **PLAIN)
    unclipped = run(tmp_path, "unclipped", LOSSES[name])
    one, other, free = map(model_of, (summed, plain, unclipped))
    assert max(abs(one[k] - other[k]).max() for k in other) < 3e-4  # noise of 1e-4 * 0.4 a number
    assert max(abs(one[k] - free[k]).max() for k in other) > 0.02
    found, expected = (load_run(f.path).rounds for f in (summed, plain))
    np.testing.assert_allclose(found["update-norm"], expected["update-norm"], atol=1e-3)
    assert found["merge.clip"].dropna().tolist() == [0.4] * 3


@pytest.mark.parametrize("name", LOSSES)
def test_masks_cancel_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    summed = run(tmp_path, "summed", LOSSES[name], **HIDES)
    without_masks(monkeypatch)
    plain = run(tmp_path, "plain", LOSSES[name], **HIDES)
    assert summed.model.read_bytes() == plain.model.read_bytes()
    for file in ("history.jsonl", "ledger.jsonl"):
        assert (summed.path / file).read_bytes() == (plain.path / file).read_bytes()


def test_what_the_server_gets_has_the_noise_of_its_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 5 members, opened for 3: z C sqrt(5 / 3) in the sum, z C / sqrt(3) in what each sends; 4,099 numbers."""
    monkeypatch.setattr(summed_runs, "SYSTEM", summed_runs.wide())
    without_masks(monkeypatch)
    clean, sent, sums = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    rounded, mean = NoisedLevels.rounded, NoisedLevels.mean

    class Silent:
        def normal(self, center: float, deviation: float, size: int) -> np.ndarray:
            return np.zeros(size)

    def spied(self: NoisedLevels, change: np.ndarray, weight: float, noise: Any) -> np.ndarray:
        assert weight == 1.0 and self.members == 5 and self.fewest == 3
        clean.append(rounded(self, change, weight, Silent()))  # type: ignore[arg-type]
        sent.append(rounded(self, change, weight, noise))
        return sent[-1]

    def summed(
        self: NoisedLevels, total: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, int]:
        sums.append(mean(self, total, weights)[0] * len(weights))
        return mean(self, total, weights)

    monkeypatch.setattr(NoisedLevels, "rounded", spied)
    monkeypatch.setattr(NoisedLevels, "mean", summed)
    own = {**HIDES, "privacy.noise-multiplier": 2.0, "privacy.noise": "secret", "num-rounds": 1}
    run(tmp_path, "run", **own)
    step = NoisedLevels(0.4, 2.0, 5, 3).step
    added = [(a - b).view("<i4")[:-1] * step for a, b in zip(sent, clean, strict=True)]
    apart = sums[0] - sum(c[:-1].view("<i4") * step for c in clean)
    error = 5 / math.sqrt(2 * 4099)
    assert len(added) == 5 and len(sums) == 1
    for noise in added:
        assert abs(noise.std() / (0.8 / math.sqrt(3)) - 1) < error
    assert abs(apart.std() / (0.8 * math.sqrt(5 / 3)) - 1) < error


def test_noise_is_the_members_own_unless_a_study_wants_the_seeds(tmp_path: Path) -> None:
    own = {**HIDES, "num-rounds": 1}
    one, other = (model_of(run(tmp_path, n, **own)) for n in ("one", "other"))
    assert all((one[k] == other[k]).all() for k in one)
    secret = {**own, "privacy.noise": "secret"}
    one, other = (model_of(run(tmp_path, n, **secret)) for n in ("a", "b"))
    assert all((one[k] != other[k]).all() for k in one)


def test_the_ledger_counts_by_who_arrived(tmp_path: Path) -> None:
    """5, 3 and 4 members with the noise of one of 3; the most may be opened for 3 of 5, or of 4 with keys."""
    folder = run(tmp_path, "run", {(2, "masked"): [0, 3], (3, "keys"): [1]}, **HIDES)
    releases = read(folder.path).releases
    assert [(r.round, r.participants) for r in releases] == [(1, 5), (2, 3), (3, 4)]
    assert [r.noise_multiplier for r in releases] == pytest.approx(
        [math.sqrt(5 / 3), 1.0, math.sqrt(4 / 3)]
    )
    rounds = load_run(folder.path).rounds
    assert rounds["merge.epsilon"].iloc[-1] == read(folder.path).epsilon()
    assert rounds["merge.epsilon"].dropna().is_monotonic_increasing
    assert "secure-sum.cut" not in rounds  # how many numbers were cut says something of changes


def test_a_sum_is_written_down_before_it_is_opened(tmp_path: Path) -> None:
    """A round that fails at the last stage, and is played again, counts twice."""
    with pytest.raises(RunFailed, match="unmask: 2 of 5"):
        run(tmp_path, "run", {(2, "unmask"): [0, 1, 2]}, **HIDES)
    assert [r.round for r in read(tmp_path / "run").releases] == [1, 2]
    run(tmp_path, "run", resume=str(tmp_path / "run"), **HIDES)
    assert [r.round for r in read(tmp_path / "run").releases] == [1, 2, 2, 3]


def test_a_run_ends_before_epsilon_is_used_up(tmp_path: Path) -> None:
    """By the least noise that a sum may have, for who arrives is not known before."""
    free = run(tmp_path, "free", **HIDES)
    spent = load_run(free.path).rounds["merge.epsilon"].dropna().tolist()
    assert len(spent) == 3
    folder = run(tmp_path, "run", **HIDES, **{"privacy.max-epsilon": spent[1] + 0.5})
    assert len(read(folder.path).releases) == 1
    assert load_run(folder.path).rounds["round"].max() == 1


def test_what_is_guaranteed_is_said(tmp_path: Path) -> None:
    told = [
        run(tmp_path, n, **HIDES, **o).results.read_text() for n, o in (("a", {}), ("b", PLAIN))
    ]
    assert "against the server too: members clip and add the noise themselves" in told[0]
    assert "against everybody but the server" in told[1] and "the server too" not in told[1]
    assert all("after 3 releases (noise multiplier 1; one client more or less)" in t for t in told)


ADAPTS = {"privacy.adaptive-clip": True, "privacy.count-noise": 0.01, "privacy.clip-rate": 1.0}


@pytest.mark.parametrize("clip", [0.01, 5.0])
def test_the_norm_adapts_as_that_of_a_server_that_clips(tmp_path: Path, clip: float) -> None:
    """Upwards where all changes are longer, downwards where none is; by a quantile of 0.7, with hardly any noise."""
    own = {**QUIET, **ADAPTS, "privacy.clip": clip, "privacy.clip-quantile": 0.7, "num-rounds": 4}
    summed, plain = run(tmp_path, "summed", **own), run(tmp_path, "plain", **own, **PLAIN)
    found, expected = (load_run(f.path).rounds for f in (summed, plain))
    clips = found["merge.clip"].dropna()
    np.testing.assert_allclose(clips, expected["merge.clip"].dropna(), rtol=0.02)
    assert abs(found["merge.not-clipped"] - expected["merge.not-clipped"]).max() < 0.02
    up = clips.iloc[-1] > 4 * clip if clip < 1 else clips.iloc[-1] < 0.5 * clip
    assert clips.iloc[0] == clip and up
    one, other = map(model_of, (summed, plain))
    scale = max(abs(other[k]).max() for k in other)
    assert max(abs(one[k] - other[k]).max() for k in other) < 0.02 * scale


def test_a_norm_that_adapts_goes_on_after_a_resume_and_costs_no_more(tmp_path: Path) -> None:
    own = {**HIDES, "privacy.adaptive-clip": True, "num-rounds": 4}
    whole = run(tmp_path, "whole", **own)
    with pytest.raises(RunFailed):
        run(tmp_path, "parts", {(3, "keys"): [0, 1, 2]}, **own)
    resumed = run(tmp_path, "parts", resume=str(tmp_path / "parts"), **own)
    for name in ("model.safetensors", "history.jsonl", "ledger.jsonl"):
        assert (resumed.path / name).read_bytes() == (whole.path / name).read_bytes()
    fixed = run(tmp_path, "fixed", **{**own, "privacy.adaptive-clip": False})
    assert read(fixed.path) == read(whole.path)


def test_members_weigh_alike_and_nobody_is_asked_for_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists that members get say 1 of everybody, whatever they have told of their examples."""
    counts = []
    read_list = clients.summing.read_list

    def spied(arrays: Arrays, *given: Any) -> Any:
        counts.append(arrays["counts"].tolist())
        return read_list(arrays, *given)

    monkeypatch.setattr(clients.summing, "read_list", spied)
    run(tmp_path, "run", **HIDES, **{"num-rounds": 1})
    assert counts == [[1] * 5] * 5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy.adaptive-clip": True, "privacy.count-noise": 0.4}, "privacy.count-noise: 0.4 is too little"),
        ({"privacy.noise-multiplier": 1e-9}, "privacy.noise-multiplier: 1e-09 is so little that the rounding"),
        ({"privacy.max-epsilon": 0.01}, "privacy.max-epsilon: 0.01, but the first round alone"),
    ],
)  # fmt: skip
def test_what_sums_cannot_hide_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        run_inprocess(config_of(tmp_path, "run", **{**HIDES, **changes}))
    assert str(refused.value).startswith(words) and "\n" not in str(refused.value)


# --- the systems ----------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["cdl", "fedvln"])
def test_houses_and_vehicles(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    """With hardly any noise the model of a server that clips, and not that of one that does not; without masks the same
    bytes; one is lost in each round."""
    monkeypatch.setattr(fedsuite.driving.report.run, "draw_data", lambda config, folder: None)
    own: dict[str, Any] = {
        "unit": "client",
        "noise": "seeded",
        "clip": 0.05,
        "noise_multiplier": 1e-5,
    }
    found = {}
    for name in ("plain", "open", "summed", "twin"):
        if name == "twin":
            without_masks(monkeypatch)
        changes = {"secure_sum": name in ("summed", "twin"), **(own if name != "open" else {})}
        config = system_config(system, cache, tmp_path, name, **changes)
        found[name] = played(
            LosingGrid(config, LOST if changes["secure_sum"] else PLAINLY_LOST), config
        )
    plain, free, one = (model_of(found[n]) for n in ("plain", "open", "summed"))

    def apart(a: Arrays, b: Arrays) -> float:
        return float(np.sqrt(sum(np.square(a[k].astype(float) - b[k]).sum() for k in a)))

    assert apart(one, plain) < 0.05 * apart(one, free)
    assert found["summed"].model.read_bytes() == found["twin"].model.read_bytes()
    assert [r.participants for r in read(found["summed"].path).releases] == [3, 3]
    own_system, settings = settings_of(config)
    rounds = load_run(found["twin"].path).rounds
    assert "against the server too" in guarantee_text(settings, found["twin"].path, rounds)
    config = system_config(system, cache, tmp_path, "adapts", **changes, adaptive_clip=True)
    rounds = load_run(played(LosingGrid(config, LOST), config).path).rounds
    first, second = rounds["merge.clip"].dropna()
    assert first == 0.05 != second and rounds["merge.not-clipped"].notna().sum() == 2
    bound = dataclasses.replace(settings.federation, secure_sum_bound=0.5)  # type: ignore[attr-defined]
    told = unread_lines(dataclasses.replace(settings, federation=bound), own_system.unread)
    assert 'secure-sum-bound = 0.5: nothing reads it with privacy.unit = "client"' in "".join(told)
