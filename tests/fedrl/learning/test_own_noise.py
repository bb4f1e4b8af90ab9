"""Noise of one party's own: nobody else's, another one in every run, and never on two different things."""

from pathlib import Path

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.learning.noise import PartyNoise
from fedsuite.fedrl.learning.own_noise import OwnNoise
from tests.harness import changed

SEED = 2**100 + 17
Q = np.arange(8, dtype=np.float32).reshape(2, 4)


def own(folder: Path, seed: int = SEED, key: str = "a" * 32) -> OwnNoise:
    return OwnNoise(seed, key, folder)


def proposal(noise: OwnNoise | None, sigma: float) -> np.ndarray:
    """What leaves the party in exchange 3."""
    config = changed(FedRLConfig(), noise_sigma=sigma)
    return PartyNoise(config, 1, noise).on_proposal(3, Q)


def test_it_depends_on_the_seed_the_run_and_the_machine_and_a_resume_finds_it(
    tmp_path: Path,
) -> None:
    first = own(tmp_path / "one").seed
    assert first == own(tmp_path / "one").seed
    others = [
        own(tmp_path / "two"),
        own(tmp_path / "one", SEED + 1),
        own(tmp_path / "one", key="b" * 32),
    ]
    assert len({first, *(noise.seed for noise in others)}) == 4


def test_two_runs_that_differ_in_sigma_do_not_tell_q(tmp_path: Path) -> None:
    """With the same noise n in both, (4 (Q + n) - (Q + 4 n)) / 3 = Q."""

    def attacked(one: OwnNoise | None, other: OwnNoise | None) -> float:
        quiet, loud = proposal(one, 1.0), proposal(other, 4.0)
        return float(np.abs((4 * quiet - loud) / 3 - Q).max())

    assert attacked(None, None) < 1e-5  # noise of the run's seed, which both share
    assert attacked(own(tmp_path / "one"), own(tmp_path / "two")) > 0.1


def test_a_slot_is_used_once(tmp_path: Path) -> None:
    noise = own(tmp_path)
    noise.once("now 3", Q)
    noise.once("now 33", Q + 1)
    for again in (noise, own(tmp_path)):  # the process, and one after it
        again.once("now 3", Q)
        with pytest.raises(
            InputError, match="now 3 was answered before, for other Q-values"
        ) as told:
            again.once("now 3", Q + 1)
        assert "\n" not in str(told.value)
    assert (tmp_path / "answered").read_bytes().count(b"\n") == 2


def test_a_line_that_was_torn_was_never_answered(tmp_path: Path) -> None:
    own(tmp_path).once("now 3", Q)
    file = tmp_path / "answered"
    whole = file.read_bytes()
    file.write_bytes(whole + b"now 4 0123")
    own(tmp_path).once("now 4", Q)
    lines = file.read_bytes().splitlines()
    assert len(lines) == 2 and lines[0] == whole.strip() and lines[1].startswith(b"now 4 ")
    with pytest.raises(InputError):
        own(tmp_path).once("now 4", Q + 1)


def test_without_what_was_answered_there_is_no_noise(tmp_path: Path) -> None:
    """Otherwise the same noise could go on other Q-values."""
    assert own(tmp_path).seed
    own(tmp_path).once("now 3", Q)
    (tmp_path / "answered").unlink()
    with pytest.raises(InputError, match="answered: no such file beside nonce, so nobody knows"):
        own(tmp_path).once("now 3", Q + 1)
    assert [file.name for file in tmp_path.iterdir()] == ["nonce"]


def test_a_damaged_nonce_is_named(tmp_path: Path) -> None:
    (tmp_path / "nonce").write_bytes(b"short")
    with pytest.raises(InputError, match="nonce: damaged, 5 bytes in place of 32"):
        own(tmp_path).seed  # noqa: B018
