"""What one release of DP-FedAvg is: clipped to the last digit, noised as said, written down before it is made."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.averaging.merging import MergeRule
from fedsuite.averaging.privacy_settings import PrivacySettings
from fedsuite.averaging.robust import Merge
from fedsuite.averaging.step import Step
from fedsuite.errors import InputError, RunFailed
from fedsuite.privacy import client_level
from fedsuite.privacy.client_level import (
    NoisedMean,
    clipped_sum,
    count_noise_of,
    factors_of,
    next_clip,
    sum_multiplier,
)
from fedsuite.privacy.ledger import read
from fedsuite.randomness import rng_for

SEEDED = PrivacySettings(unit="client", noise="seeded", noise_multiplier=1.0, clip=1.0)
NOISELESS = replace(SEEDED, noise_multiplier=1e-14)
SERVER = {"w": np.zeros(2, np.float32), "v": np.full((1, 2), 5.0), "n": np.asarray(3)}


def client(w: tuple[float, float], v: tuple[float, float] = (0.0, 0.0)) -> dict[str, Any]:
    return {
        "w": np.array(w, np.float32), "v": np.array([v]) + 5.0, "n": np.asarray(1000),
    }  # fmt: skip


def step(number: int = 1, seed: int = 5, **state: Any) -> Step:
    return Step(round=number, seed=seed, purpose="merge", state=state)


def release(
    own: PrivacySettings, folder: Path, clients: list[Any], m: int = 4, told: Step | None = None
) -> dict[str, np.ndarray]:
    merge = Merge(MergeRule(NoisedMean(own, m, folder)))
    weights = np.full(len(clients), 1 / len(clients))
    return merge(SERVER, clients, weights, told or step()).delta


def test_changes_are_clipped_over_all_arrays_together_and_divided_by_m(tmp_path: Path) -> None:
    """(3, 0; 0, 4) has the norm 5; a change of 0 is a change; whole numbers are not released."""
    clients = [client((3, 0), (0, 4)), client((0.3, 0.4)), client((0, 0))]
    delta = release(NOISELESS, tmp_path, clients)
    assert delta.keys() == {"w", "v"}
    np.testing.assert_allclose(delta["w"], [(0.6 + 0.3) / 4, 0.4 / 4], atol=1e-8)  # 0.3 is float32
    np.testing.assert_allclose(delta["v"], [[0, 0.8 / 4]], atol=1e-9)


def test_weights_do_not_matter(tmp_path: Path) -> None:
    rule = NoisedMean(SEEDED, 2, tmp_path)
    clients = [client((3, 0)), client((0, 1))]
    one, other = (
        rule(SERVER, clients, np.array(p), 0, step()).delta["w"] for p in ([0.5, 0.5], [0.9, 0.1])
    )
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("clip", [0.1, 1.0, 30.0])
def test_one_client_more_moves_the_sum_by_the_clipping_norm_at_most(clip: float) -> None:
    rng = np.random.default_rng(0)
    many = [client(*rng.normal(0, 10.0 ** rng.integers(-3, 3), (2, 2))) for _ in range(50)]
    norms = client_level.lengths(SERVER, many)
    factors = factors_of(norms, clip)
    whole = clipped_sum(SERVER, many, factors)
    longest = 0.0
    for k in range(50):
        rest = [c for i, c in enumerate(many) if i != k]
        without = clipped_sum(SERVER, rest, np.delete(factors, k))
        moved = np.sqrt(sum(np.square(whole[n] - without[n]).sum() for n in whole))
        assert moved <= clip * (1 + 1e-9)
        longest = max(longest, moved)
    assert longest == pytest.approx(clip) if norms.max() > clip else longest < clip


def test_the_order_of_clients_changes_nothing_but_last_bits(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    clients = [client(*rng.normal(size=(2, 2))) for _ in range(9)]
    one = release(SEEDED, tmp_path, clients)
    other = release(SEEDED, tmp_path, [clients[i] for i in rng.permutation(9)])
    for name in one:
        np.testing.assert_allclose(other[name], one[name], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("adaptive", [False, True])
def test_noise_has_the_standard_deviation_that_was_said(tmp_path: Path, adaptive: bool) -> None:
    """z C / m per number, and z_s C / m where a count is released beside it; numbers are independent."""
    size, m, clip, z = 40_000, 8, 3.0, 1.5
    own = replace(SEEDED, noise_multiplier=z, clip=clip, noise="secret", adaptive_clip=adaptive)
    server = {"a": np.zeros(size, np.float32), "b": np.zeros((size // 4, 4))}
    clients = [{k: v.copy() for k, v in server.items()} for _ in range(m)]
    found = NoisedMean(own, m, tmp_path)(server, clients, np.ones(m) / m, 0, step()).delta
    other = NoisedMean(own, m, tmp_path)(server, clients, np.ones(m) / m, 0, step()).delta
    want = clip / m * ((z**-2 - (2 * z) ** -2) ** -0.5 if adaptive else z)
    drawn = np.concatenate([d[n].ravel() for d in (found, other) for n in ("a", "b")])
    error = 1 / np.sqrt(2 * drawn.size)  # of a standard deviation, as a share of it
    assert abs(drawn.std() / want - 1) < 5 * error
    assert abs(drawn.mean()) < 5 * want / np.sqrt(drawn.size)
    assert abs(np.corrcoef(found["a"], other["a"])[0, 1]) < 5 / np.sqrt(size)
    assert abs(np.corrcoef(found["a"], found["b"].ravel())[0, 1]) < 5 / np.sqrt(size)


def test_noise_is_the_systems_own_unless_a_study_wants_the_seeds(tmp_path: Path) -> None:
    clients = [client((1, 0))]
    secret = replace(SEEDED, noise="secret")
    one, other = (release(secret, tmp_path, clients)["w"].tolist() for _ in range(2))
    assert one != other
    one, other = (release(SEEDED, tmp_path, clients)["w"].tolist() for _ in range(2))
    assert one == other
    later = release(SEEDED, tmp_path, clients, told=step(2))["w"].tolist()
    elsewhere = release(SEEDED, tmp_path, clients, told=step(1, seed=6))["w"].tolist()
    assert len({tuple(x) for x in (one, later, elsewhere)}) == 3


def test_a_round_equals_a_program_of_its_own(tmp_path: Path) -> None:
    """Two seeded rounds with an adaptive clip, written down once more without anything of the package but its streams."""
    own = replace(SEEDED, adaptive_clip=True, noise_multiplier=0.8, clip=0.7, clip_quantile=0.3)
    rng, m, clip, state = np.random.default_rng(2), 5, 0.7, {}
    count_noise = 0.8  # the larger of 5 / 20 and z
    z = 1 / np.sqrt(1 / 0.8**2 - 1 / (2 * count_noise) ** 2)
    for number in (1, 2):
        changes = rng.normal(0, 0.5, (m, 4))
        clients = [client(c[:2], c[2:]) for c in changes]
        told = step(number, **state)
        found = release(own, tmp_path, clients, m, told)
        exact = np.array([
            np.concatenate([c["w"].astype(float), (c["v"] - 5.0).ravel()]) for c in clients
        ])  # fmt: skip
        norms = np.linalg.norm(exact, axis=1)
        summed = sum(x if n <= clip else x * clip / n for x, n in zip(exact, norms, strict=True))
        stream = rng_for(5, "step of merge", number)
        noise_v, noise_w = stream.normal(0, z * clip, (1, 2)), stream.normal(0, z * clip, 2)
        np.testing.assert_allclose(found["v"], (summed[2:] + noise_v) / m, rtol=1e-12)
        np.testing.assert_allclose(found["w"], (summed[:2] + noise_w) / m, rtol=1e-12)
        share = (sum(n <= clip for n in norms) - m / 2 + stream.normal(0, count_noise)) / m + 0.5
        assert told.metrics["not-clipped"] == pytest.approx(share, abs=1e-12)
        assert told.metrics["clip"] == pytest.approx(clip, abs=1e-12)
        clip *= np.exp(-0.2 * (share - 0.3))
        state = told.state
        assert float(state["clip"]) == pytest.approx(clip, abs=1e-12)


def test_an_adaptive_clip_goes_where_its_quantile_is() -> None:
    """The golden value, and where it settles: a quarter of norms 1 .. 100 is 25, the direction is the paper's."""
    assert next_clip(1.0, 0.75, 0.5, 0.2) == pytest.approx(0.9512294245, abs=1e-9)
    assert next_clip(1.0, 0.0, 0.5, 0.2) > 1 > next_clip(1.0, 1.0, 0.5, 0.2)
    norms = np.arange(1, 101)
    for start in (0.01, 1e4):
        clip = start
        for _ in range(600):
            clip = next_clip(clip, float((norms <= clip).mean()), 0.25, 0.2)
        assert clip == pytest.approx(25, rel=0.05)


def test_a_count_takes_its_part_of_the_noise() -> None:
    assert sum_multiplier(1.0, 0.0) == 1.0
    z = sum_multiplier(1.2, 0.7)
    assert z**-2 + (2 * 0.7) ** -2 == pytest.approx(1.2**-2, rel=1e-12)
    with pytest.raises(InputError, match=r"privacy\.count-noise: 0\.5 is too little .* above 0\.5"):
        sum_multiplier(1.0, 0.5)
    adaptive = replace(SEEDED, adaptive_clip=True, noise_multiplier=3.0)
    assert count_noise_of(adaptive, 12) == 3.0 and count_noise_of(adaptive, 1000) == 50.0
    assert count_noise_of(replace(adaptive, count_noise=2.0), 12) == 2.0
    assert count_noise_of(SEEDED, 1000) == 0.0


def test_what_is_no_number_is_not_released(tmp_path: Path) -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(RunFailed, match=r"round 1: array w of a change holds NaN or infinity"):
            release(SEEDED, tmp_path, [client((1, 0)), client((bad, 0))])
    assert read(tmp_path).releases == ()


def test_the_ledger_has_a_release_before_its_noise_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash in between leaves a line; what is played again counts twice."""

    def killed(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client_level, "noise_source", killed)
        with pytest.raises(KeyboardInterrupt):
            release(SEEDED, tmp_path, [client((1, 0))])
    assert [r.round for r in read(tmp_path).releases] == [1]
    told = step()
    release(SEEDED, tmp_path, [client((1, 0))], told=told)
    ledger = read(tmp_path)
    assert [r.round for r in ledger.releases] == [1, 1] and ledger.unit == "client"
    assert [r.participants for r in ledger.releases] == [1, 1] and not ledger.secret
    assert told.metrics["epsilon"] == ledger.epsilon() > 1.4 * ledger_of_one(tmp_path / "one")


def ledger_of_one(folder: Path) -> float:
    folder.mkdir()
    release(SEEDED, folder, [client((1, 0))])
    return read(folder).epsilon()


def test_nothing_is_released_above_the_limit(tmp_path: Path) -> None:
    """z = 4, delta = 1e-3: 59 releases stay within epsilon 8."""
    own = replace(SEEDED, noise_multiplier=4.0, delta=1e-3, max_epsilon=8.0)
    rule = NoisedMean(own, 1, tmp_path)
    for number in range(1, 60):
        assert rule.allows(number)
        release(own, tmp_path, [client((1, 0))], told=step(number))
    assert not rule.allows(60) and read(tmp_path).epsilon() == pytest.approx(7.986298, abs=1e-6)
    with pytest.raises(RunFailed, match=r"round 60: privacy\.max-epsilon: .* above 8"):
        release(own, tmp_path, [client((1, 0))], told=step(60))
    assert len(read(tmp_path).releases) == 59
