"""Whole runs with differential privacy: what they write, when they end, and what resuming them does."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from clients.numpy_client_app import NAMES
from clients.torch_client import TorchClient
from fedsuite.errors import InputError, RunFailed
from fedsuite.history import load_runs, read_rows
from fedsuite.privacy.accounting import epsilon_of
from fedsuite.privacy.ledger import LEDGER, read
from fedsuite.randomness import rng_for
from fedsuite.roster.members import ROSTER, read_roster, roster_of
from fedsuite.runs.folder import RunFolder
from simulations.app.in_python import report
from simulations.audits.replayed import replay
from simulations.engines.inprocess import run_inprocess
from simulations.systems import Node, settings_of
from strategies.private import PlannedVisits
from strategies.runtime.bookkeeping import STEPS
from tests.privacy.private_regression import SIZES, Counting, config_of, play, rows_of

CLIENT: dict[str, Any] = {"unit": "client", "clip": 0.5, "noise_multiplier": 1.0}
EXAMPLE: dict[str, Any] = {"unit": "example", "clip": 0.5, "noise_multiplier": 1.5}


def bytes_of(folder: RunFolder) -> tuple[bytes, bytes]:
    return folder.model.read_bytes(), (folder.path / "history.jsonl").read_bytes()


def epsilons(folder: RunFolder, name: str) -> list[float]:
    rounds: list[float] = load_runs(folder.path).rounds[name].dropna().tolist()
    return rounds


def sites(config: dict[str, Any], folder: Path) -> list[TorchClient]:
    settings = settings_of(config)[1]
    nodes = [
        Node(roster_of(list(SIZES), list(SIZES.values())), k, folder / str(k)) for k in range(5)
    ]
    loss = torch.nn.functional.cross_entropy
    return [TorchClient(Counting(), loss, rows_of(settings, n), settings, n) for n in nodes]  # type: ignore[arg-type]


def trained(site: TorchClient, model: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """What a site sends of a visit."""
    steps = site.config.visit_steps(site.count())
    told = {NAMES: "\n".join(model), "round": number, "checkpoint-rounds": "0", "steps": steps}
    arrays, _, metrics = site.fit([*model.values()], told)
    return dict(zip(str(metrics[NAMES]).split("\n"), arrays, strict=True))


@pytest.mark.slow
def test_the_server_adds_up_clipped_changes_and_noise(tmp_path: Path) -> None:
    """Three rounds against a NumPy program that is given what each site sends."""
    folder = play(tmp_path, "run", **CLIENT, server_learning_rate=0.7)
    config = config_of(tmp_path, "twin", **CLIENT, server_learning_rate=0.7)
    own, found = sites(config, tmp_path / "sites"), load_file(folder.model)
    at = {k: v.numpy() for k, v in _initial(config).items()}
    for number in (1, 2, 3):
        summed = {k: np.zeros(v.shape) for k, v in at.items() if k != "seen"}
        for site in own:
            sent = trained(site, at, number)
            change = {k: sent[k].astype(float) - at[k] for k in summed}
            norm = np.sqrt(sum(np.square(c).sum() for c in change.values()))
            for name, c in change.items():
                summed[name] += c * min(1, 0.5 / norm)
        rng = rng_for(0, "step of merge", number)
        for name in sorted(summed):
            noise = rng.normal(0, 0.5, summed[name].shape)
            at[name] = (at[name] + 0.7 * (summed[name] + noise) / 5).astype(np.float32)
    for name, value in at.items():
        np.testing.assert_allclose(found[name], value, atol=2e-6)
    assert found["seen"] == 7 and not np.allclose(found["still"], 1)  # a float is released, noised


def _initial(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng_for(0, "initial model").integers(2**63)))
        return dict(Counting().state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("unit", [CLIENT, EXAMPLE], ids=["client", "example"])
def test_noise_of_the_system_is_another_in_every_run(tmp_path: Path, unit: dict[str, Any]) -> None:
    secret = [bytes_of(play(tmp_path, f"s{k}", **unit, noise="secret"))[0] for k in (1, 2)]
    seeded = [bytes_of(play(tmp_path, f"d{k}", **unit)) for k in (1, 2)]
    assert secret[0] != secret[1] and seeded[0] == seeded[1]
    told = "drawn from the run's seed"
    assert told in (tmp_path / "d1" / "results.md").read_text()
    assert told not in (tmp_path / "s1" / "results.md").read_text()


def test_the_run_says_what_it_guarantees(tmp_path: Path) -> None:
    folder = play(tmp_path, "run", **CLIENT)
    ledger = read(folder.path)
    assert [r.round for r in ledger.releases] == [1, 2, 3] and ledger.unit == "client"
    want = [epsilon_of({(1.0, 1.0): n}, 1e-3) for n in (1, 2, 3)]
    assert epsilons(folder, "merge.epsilon") == pytest.approx(want, rel=1e-12)
    text = folder.results.read_text()
    assert f"unit client: epsilon {want[-1]:.4g} at delta 0.001 after 3 releases" in text
    assert "Not covered: numbers of examples, losses, scores" in text
    page = tmp_path / "page.md"
    report(folder.path, page)
    assert "unit client: epsilon" in page.read_text()


def test_examples_are_hidden_by_their_own_client(tmp_path: Path) -> None:
    """Every client has a ledger of its steps, says what it has spent, and tells no loss."""
    folder = play(tmp_path, "run", **EXAMPLE, num_rounds=2, batch_size=10, local_epochs=2)
    spent = {}
    for name, count in SIZES.items():
        ledger, steps = read(folder.client(name)), 2 * -(-count // 10)
        assert [(r.round, r.count, r.sampling) for r in ledger.releases] == [
            (1, steps, 10 / count), (2, steps, 10 / count),
        ]  # fmt: skip
        spent[name] = epsilon_of({(1.5, 10 / count): 2 * steps}, 1e-3)
    rows = [r for r in read_rows(folder.path / "history.jsonl") if r.get("task") == "train"]
    assert all(r["metrics"].keys() == {"steps", "epsilon"} for r in rows)
    last = {r["name"]: r["metrics"]["epsilon"] for r in rows if r["round"] == 2}
    assert last == pytest.approx(spent, rel=1e-12)
    assert epsilons(folder, "train.epsilon")[-1] == max(last.values())
    assert not (folder.path / LEDGER).exists()
    text = folder.results.read_text()
    assert f"unit example: epsilon {max(last.values()):.4g} at delta 0.001 after 2 rounds" in text


@pytest.mark.slow
def test_it_learns_with_little_noise(tmp_path: Path) -> None:
    own = {**EXAMPLE, "noise_multiplier": 0.3, "num_rounds": 12, "learning_rate": 0.5}
    folder = play(tmp_path, "run", **own)
    found = epsilons(folder, "loss")
    assert found[-1] < 0.7 * found[0]


# --- the end of what may be told -------------------------------------------------------------------


def test_a_run_ends_before_the_round_that_would_tell_too_much(tmp_path: Path) -> None:
    """Completed, evaluated and saved, although more rounds were wanted; going on changes nothing."""
    limit = epsilon_of({(1.0, 1.0): 2}, 1e-3) + 0.01
    config = config_of(tmp_path, "run", **CLIENT, max_epsilon=limit, evaluate_every=0, num_rounds=9)
    told: list[Any] = []
    run_inprocess(config, told.append)
    folder = RunFolder(tmp_path / "run")
    assert folder.status()["status"] == "completed"
    assert [r.round for r in read(folder.path).releases] == [1, 2]
    rows = load_runs(folder.path).rounds
    assert rows["round"].max() == 2 and not np.isnan(rows[rows["round"] == 2]["loss"].iloc[-1])
    ends = [e["reason"] for e in told if e["kind"] == "ends"]
    assert len(ends) == 1 and re.match(r"epsilon is .* above privacy\.max-epsilon = ", ends[0])
    before = folder.model.read_bytes()
    run_inprocess({**config, "resume": str(folder.path), "num-rounds": 12})
    assert folder.model.read_bytes() == before and len(read(folder.path).releases) == 2


def test_a_limit_that_the_first_round_breaks_is_refused(tmp_path: Path) -> None:
    for own in (CLIENT, EXAMPLE):
        with pytest.raises(InputError, match=r"privacy\.max-epsilon"):
            play(tmp_path, own["unit"], **own, max_epsilon=0.5)
        assert not [*(tmp_path / own["unit"]).rglob(LEDGER)]


@pytest.mark.slow
def test_plans_of_single_examples_end_in_time(tmp_path: Path) -> None:
    """By the client that trains most, who is drawn for each round by the seed alone."""
    own = {**EXAMPLE, "participation_rate": 0.4, "num_rounds": 8}
    free = play(tmp_path, "free", **own)
    spent = epsilons(free, "train.epsilon")
    worst = np.maximum.accumulate(spent)
    folder = play(tmp_path, "bound", **own, max_epsilon=float(worst[4]) + 1e-6)
    rounds = load_runs(folder.path).rounds["round"].max()
    assert folder.status()["status"] == "completed" and rounds < 8
    assert worst[rounds] > worst[4] + 1e-6 >= worst[rounds - 1]  # the next round is one too many
    assert load_file(folder.model).keys() == load_file(free.model).keys()


@pytest.mark.parametrize("own", [CLIENT, EXAMPLE])
def test_a_round_is_played_again_where_nothing_more_may_be_told(
    tmp_path: Path, own: dict[str, Any]
) -> None:
    """An attack on a copy releases nothing, so a limit that the run has used up does not end it."""
    free = play(tmp_path, "free", **own)
    spent = epsilons(free, "merge.epsilon" if own is CLIENT else "train.epsilon")[-1]
    config = config_of(tmp_path, "run", **own, max_epsilon=spent + 1e-6)
    run_inprocess(config)
    folder, (system, settings) = RunFolder(tmp_path / "run"), settings_of(config)
    assert folder.model.read_bytes() == free.model.read_bytes()
    before = [(p, p.read_bytes()) for p in folder.path.rglob(LEDGER)]
    again = replay(system, settings, read_roster(folder.path / ROSTER), folder)
    assert again.number == 3 and len(again.training) == 5
    for name, value in load_file(folder.model).items():
        assert np.array_equal(again.result.state.arrays[name], value), name
    assert before == [(p, p.read_bytes()) for p in folder.path.rglob(LEDGER)]


def test_a_plan_counts_every_round_once() -> None:
    settings = settings_of(config_of(Path(), "x", **EXAMPLE, max_epsilon=2.0))[1].privacy  # type: ignore[attr-defined]

    class One:
        partition = 0

    plan = PlannedVisits(settings, lambda n: [One()] if n % 2 else [], lambda c: 5, lambda c: 0.1)  # type: ignore[list-item, arg-type, return-value]
    want = [epsilon_of({(1.5, 0.1): n}, 1e-3) for n in (0, 5, 5, 10)]
    assert [plan.epsilon(n) for n in (3, 0, 1, 2)] == [want[3], *want[:3]]
    plan = PlannedVisits(settings, lambda n: [One()], lambda c: 5, lambda c: 0.1)  # type: ignore[list-item, arg-type, return-value]
    number = next(n for n in range(1, 999) if plan(n))
    now, after = (epsilon_of({(1.5, 0.1): 5 * n}, 1e-3) for n in (number - 1, number))
    assert now <= 2 < after
    told = f"epsilon is {now:.4g} at delta 0.001, and another round would take it to {after:.4g}, "
    assert plan(number).startswith(told)


# --- going on ----------------------------------------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], number: int) -> None:
    """A run that is lost in round `number`, after its release is in the ledger and before its checkpoint."""
    from fedsuite.privacy import client_level

    original, seen = client_level.noise_source, []

    def killed(*given: Any) -> Any:
        seen.append(1)
        if len(seen) == number:
            raise RunFailed("out of luck")
        return original(*given)

    with monkeypatch.context() as patch:
        patch.setattr(client_level, "noise_source", killed)
        with pytest.raises(RunFailed, match="out of luck"):
            run_inprocess(config)


def test_a_round_that_is_played_again_counts_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between ledger and release: nobody can know any more whether it left."""
    config = config_of(tmp_path, "run", **{**CLIENT, "noise": "secret"})
    failing(monkeypatch, config, 2)
    folder = RunFolder(tmp_path / "run")
    assert [r.round for r in read(folder.path).releases] == [1, 2]
    run_inprocess({**config, "resume": str(folder.path)})
    ledger = read(folder.path)
    assert [r.round for r in ledger.releases] == [1, 2, 2, 3]
    assert epsilons(folder, "merge.epsilon")[-1] == epsilon_of({(1.0, 1.0): 4}, 1e-3)
    assert (
        f"epsilon {ledger.epsilon():.4g} at delta 0.001 after 4 releases"
        in folder.results.read_text()
    )


def test_what_was_played_in_vain_may_use_up_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = epsilon_of({(1.0, 1.0): 2}, 1e-3) + 0.01
    config = config_of(tmp_path, "run", **CLIENT, max_epsilon=limit)
    failing(monkeypatch, config, 2)
    folder = RunFolder(tmp_path / "run")
    run_inprocess({**config, "resume": str(folder.path)})
    assert folder.status()["status"] == "completed" and len(read(folder.path).releases) == 2
    assert load_runs(folder.path).rounds["round"].max() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", [CLIENT | {"adaptive_clip": True}, EXAMPLE], ids=["client", "example"]
)
def test_a_seeded_run_goes_on_as_if_nothing_had_been(tmp_path: Path, unit: dict[str, Any]) -> None:
    whole = play(tmp_path, "whole", **unit, num_rounds=4)
    config = config_of(tmp_path, "parts", **unit, num_rounds=2)
    run_inprocess(config)
    folder = RunFolder(tmp_path / "parts")
    run_inprocess({**config, "resume": str(folder.path), "num-rounds": 4})
    assert bytes_of(folder) == bytes_of(whole)
    ledgers = [sorted(f.path.rglob(LEDGER)) for f in (whole, folder)]
    texts = [[p.read_text() for p in found] for found in ledgers]
    assert texts[0] == texts[1] and texts[0]


def test_default_runs_are_what_they_were(tmp_path: Path) -> None:
    """Without privacy nothing is written of it, and its other keys change nothing."""
    plain = play(tmp_path, "plain")
    other = play(tmp_path, "other", clip=0.1, noise_multiplier=9.0)
    assert bytes_of(plain) == bytes_of(other)
    assert not [*plain.path.rglob(LEDGER)] and not plain.results.exists()
    assert STEPS in load_runs(plain.path).rounds
