"""`fedsuite audit` around the attacks of a system: what it plays again, keeps, shows and refuses; the toy system."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from flwr.client import NumPyClient

from fedsuite.errors import InputError
from fedsuite.history import load_run, load_runs
from fedsuite.privacy import ledger
from fedsuite.privacy.findings import AT_LEAST, Finding, Row, read_rows, write_rows
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.files import sha256_of
from simulations.audits.accounted import beside_ledger
from simulations.audits.audited import Attack, Audited
from simulations.audits.cores import CoreAttack
from simulations.audits.replayed import replay
from simulations.audits.shown import means
from tests import toy
from tests.harness import run_toy, toy_settings

Call = Callable[..., tuple[int, str, str]]


def _moved(audited: Audited) -> Iterator[Finding]:
    """How far the clients' weights move, as the server sees it."""
    visits = audited.played().training
    far = [float(np.linalg.norm(v.reply.arrays["w"] - v.task.arrays["w"])) for v in visits]
    yield Finding(
        "moved", "server", "a client's step", "length", float(np.mean(far)), 0.0, 1.0, 0.9, len(far)
    )


def _bound(audited: Audited) -> Iterator[Finding]:
    value = audited.config.step_size * 10
    common = ("bound", "server", "a record", AT_LEAST, value, 0.0, 3.0, 1.0, 10)
    yield Finding(*common, epsilon=1.5, unit="client")


def _failing(audited: Audited) -> Iterator[Finding]:
    yield Finding("failing", "server", "nothing", "AUC", 0.5, 0.5, 0.6, 0.9, 10, 0.4, 0.6, "a note")


def _left_out(audited: Audited) -> Iterator[Finding]:
    audited.progress("left: left out, there is nothing to attack")
    return iter(())


def _stopped(audited: Audited) -> Iterator[Finding]:
    raise KeyboardInterrupt


ATTACKS: dict[str, Attack] = {"moved": _moved, "bound": _bound, "failing": _failing}
SYSTEM = dataclasses.replace(toy.SYSTEM, audit=lambda config: ATTACKS)
STOPS = dataclasses.replace(toy.SYSTEM, audit=lambda config: {"moved": _moved, "stops": _stopped})
LEFT = dataclasses.replace(toy.SYSTEM, audit=lambda config: {"left": _left_out, "moved": _moved})
CORED = dataclasses.replace(
    toy.SYSTEM, audit=lambda config: {"recognition": CoreAttack(lambda *_: iter(()))}
)
NAME, STOPPING = "tests.simulations.test_audits:SYSTEM", "tests.simulations.test_audits:STOPS"


def files_of(folder: Path) -> dict[str, str]:
    files = sorted(
        p for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".lock", "audit."))
    )
    return {str(p.relative_to(folder)): sha256_of(p.read_bytes()) for p in files}


@pytest.fixture
def played(tmp_path: Path) -> RunFolder:
    return run_toy(tmp_path / "runs", system=NAME)


def test_a_round_played_again_is_that_of_the_run(played: RunFolder) -> None:
    """Rounds 3 and 4 are the last two checkpoints: played from the third, the fourth gives the run's last model."""
    from safetensors.numpy import load_file

    settings, before = toy_settings(played.path.parent, system=NAME), files_of(played.path)
    roster = toy.SYSTEM.prepare(settings, lambda *_: None)
    last = replay(SYSTEM, settings, roster, played)
    assert last.number == 4 and [v.client.partition for v in last.training] == [0, 1, 2]
    assert last.result.state.arrays["w"].tobytes() == load_file(played.model)["w"].tobytes()
    assert files_of(played.path) == before
    first = replay(SYSTEM, settings, roster, played, first=True)
    again = replay(SYSTEM, settings, roster, played, {"step-size": 0.2}, first=True)
    start = first.training[0].task.arrays["w"]
    one, two = (r.training[0].reply.arrays["w"] - start for r in (first, again))
    assert first.number == 1 and np.allclose(two, 2 * one, rtol=0.05)


def test_a_client_may_be_another_one(played: RunFolder) -> None:
    settings = toy_settings(played.path.parent, system=NAME)
    roster = toy.SYSTEM.prepare(settings, lambda *_: None)

    def silent(client: NumPyClient) -> NumPyClient:
        fit = client.fit
        client.fit = lambda parameters, config: (parameters, *fit(parameters, config)[1:])  # type: ignore[method-assign]
        return client

    for visit in replay(SYSTEM, settings, roster, played, altered=silent).training:
        assert np.array_equal(visit.reply.arrays["w"], visit.task.arrays["w"])


def test_findings_are_kept_shown_and_not_written_over(played: RunFolder, call: Call) -> None:
    code, out, err = call("audit", "runs/run", "--attacks", "moved,failing", engine=False)
    assert code == 0 and "moved" in out and "does not count" in out, err
    file = played.path / "audit.csv"
    first = file.read_bytes()
    assert [(r.finding.attack, r.seed, r.round, r.quick) for r in read_rows(file)] == [
        ("moved", 0, 4, False),
        ("failing", 0, 4, False),
    ]
    assert call("audit", "run", "--attacks", "moved", engine=False)[0] == 0  # is there
    code, _, err = call("audit", "run", "--attacks", "moved", "--seed", "1", engine=False)
    assert code == 2 and "--overwrite" in err and file.read_bytes() == first
    assert (
        call("audit", "run", "--attacks", "moved", "--seed", "1", "--overwrite", engine=False)[0]
        == 0
    )
    assert {r.finding.attack: r.seed for r in read_rows(file)} == {"failing": 0, "moved": 1}
    assert "| failing | server | nothing |" in (played.path / "audit.md").read_text()


def test_an_attack_may_find_nothing(tmp_path: Path, call: Call) -> None:
    """The first of several, or the only one."""
    run = run_toy(tmp_path / "runs", system="tests.simulations.test_audits:LEFT").path
    code, out, err = call("audit", "run", "--attacks", "left", engine=False)
    assert code == 0 and "nothing to attack" in err and "moved" not in out
    assert read_rows(run / "audit.csv") == [] and len(load_run(run).audit) == 0
    assert "Every attack was left out" in (run / "audit.md").read_text()
    assert call("report", "run", "-o", "page.html", engine=False)[0] == 0
    code, out, err = call("audit", "run", "--json", engine=False)
    assert code == 0 and [f["attack"] for f in json.loads(out)["findings"]] == ["moved"]
    assert "| moved | server |" in (run / "audit.md").read_text()


def test_a_bound_above_what_is_accounted_fails(tmp_path: Path, call: Call) -> None:
    run_toy(tmp_path / "runs", system=NAME, step_size=0.2)
    code, out, err = call("audit", "run", "--json", engine=False)
    assert code == 1 and "epsilon is at least 2" in err and "accounts 1.5 per client" in err
    rows = json.loads(out)["findings"]
    assert [row["attack"] for row in rows] == ["moved", "bound", "failing"]
    assert rows[0]["epsilon"] is None and rows[1]["epsilon"] == 1.5
    run_toy(tmp_path / "runs", system=NAME, step_size=0.1, name="other")
    assert call("audit", "other", engine=False)[0] == 0


def test_one_that_is_stopped_keeps_what_it_has(tmp_path: Path, call: Call) -> None:
    run = run_toy(tmp_path / "runs", system=STOPPING)
    code, _, err = call("audit", "run", engine=False)
    assert code == 130 and "is kept" in err
    assert [row.finding.attack for row in read_rows(run.path / "audit.csv")] == ["moved"]


def test_what_cannot_be_audited_is_refused(tmp_path: Path, call: Call) -> None:
    run_toy(tmp_path / "runs")
    told = {
        ("run",): "names no attacks",
        ("nothing",): "no such run",
    }
    run_toy(tmp_path / "runs", system=NAME, name="mine")
    told[("mine", "--attacks", "wards")] = "no attack"
    told[("mine", "--set", "words.house=2")] = "words.houses"
    told[("mine", "--set", "words.houses=0")] = ">= 1"
    told[("mine", "--quick", "--set", "membership.shadows=8")] = "--quick: 4 shadow models, not 8"
    told[("mine", "--quick", "--set", "words.houses=2")] = "words.houses: no attack words is made"
    told[("mine", "--set", "words.houses")] = "KEY=VALUE"
    run_toy(tmp_path / "runs", system=f"{__name__}:CORED", name="cored")
    told[("cored", "--set", "recognition.houses=2")] = "recognition of toy has no settings"
    for arguments, message in told.items():
        code, _, err = call("audit", *arguments, engine=False)
        assert code == 2 and message in err, (arguments, err)
    assert not (tmp_path / "runs" / "mine" / "audit.csv").exists()


def test_other_data_are_refused(played: RunFolder, call: Call) -> None:
    roster = json.loads((played.path / "roster.json").read_text())
    roster["members"][0]["examples"] += 1
    (played.path / "roster.json").write_text(json.dumps(roster))
    code, _, err = call("audit", "run", engine=False)
    assert code == 2 and "data are not those" in err


def test_history_and_report_have_the_section(played: RunFolder, call: Call) -> None:
    assert load_run(played.path).audit.empty
    call("audit", "run", "--attacks", "failing", engine=False)
    (line,) = load_run(played.path).audit.to_dict("records")
    assert (line["run"], line["measure"], line["counts"], line["note"]) == (
        "run",
        "AUC",
        False,
        "a note",
    )
    assert np.isnan(line["undefended"]) and line["n"] == 10
    assert call("report", "run", "-o", "page.html", engine=False)[0] == 0
    page = (played.path.parents[1] / "page.html").read_text()
    assert "What it tells" in page and "control failed, does not count" in page
    (played.path / "audit.csv").write_text("seed,round\n1,2\n")
    with pytest.raises(InputError, match="not the findings"):
        _ = load_run(played.path).audit
    with pytest.raises(InputError, match="not the findings"):
        read_rows(played.path / "audit.csv")


def test_seeds_have_a_mean_and_variants_a_paired_difference(tmp_path: Path) -> None:
    labels = [f"{v}/seed-{s}" for v in ("plain", "noised") for s in (0, 1, 2)]
    for label in labels:
        run = run_toy(tmp_path / "e", name=label.replace("/", "-"), seed=int(label[-1])).path
        folder = tmp_path / "e" / label
        folder.parent.mkdir(exist_ok=True)
        run.rename(folder)
        value = 0.9 + 0.01 * int(label[-1]) - 0.3 * label.startswith("noised")
        rows = [Finding("a", "server", "t", "AUC", value, 0.5, 0.95, 0.9, 5)]
        write_rows(folder / "audit.csv", [Row(f, 0, 4, False) for f in rows])
    runs = [{"name": label, "settings": {}} for label in labels]
    (tmp_path / "e" / "experiment.json").write_text(json.dumps({"format": 1, "runs": runs}))
    first, second = means(load_runs(tmp_path / "e"))
    assert (first.variant, first.what, first.runs) == ("plain", ("a", "server", "t", "AUC"), 3)
    half = 0.01 * 4.302653 / np.sqrt(3)
    told = (first.value.mean, first.value.low, first.value.high)
    assert told == pytest.approx((0.91, 0.91 - half, 0.91 + half)) and first.less is None
    assert second.less is not None and second.less.n == 3
    assert (second.less.low, second.less.high) == pytest.approx((-0.3, -0.3))
    assert second.record()["less-the-first"]["mean"] == pytest.approx(-0.3)


def test_what_the_ledger_accounts_stands_beside_what_it_covers(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    seen = Finding("a", "server", "t", AT_LEAST, 3.0, 0.0, 4.0, 1.0, 5, note="x")
    given = dataclasses.replace(seen, attacker="anybody with the model")
    assert beside_ledger(folder, "none")(given) is given
    release = ledger.Release(round=1, unit="client", noise_multiplier=4.0, delta=1e-5)
    ledger.record(tmp_path, release)
    epsilon = ledger.read(tmp_path).epsilon()
    history(tmp_path, {"kind": "round", "metrics": {"merge.epsilon": epsilon}})
    beside = beside_ledger(folder, "client")
    assert beside(given).epsilon == epsilon < 3.0 and beside(given).refutes
    assert beside(given).unit == "client"
    assert not beside(seen).refutes and beside(seen).note.startswith("x; ")
    summed = beside_ledger(folder, "client", summed=True)(seen)  # its members have added the noise
    assert summed.refutes and summed.note == "x" and summed.epsilon == epsilon
    # Of examples, which a client counts for itself, the server sees no more than the ledger says.
    other, told = tmp_path / "other", []
    for place, key, count in (
        ("a", "epsilon", 1),
        ("b", "epsilon", 9),
        ("c/silo-4", "silo.4.epsilon", 2),
    ):
        own = dataclasses.replace(release, unit="example", count=count)
        (other / "clients" / place).mkdir(parents=True)
        said = ledger.record(other / "clients" / place, own).epsilon()
        row = {"kind": "client", "partition": 0, "name": place[0], "task": "train", "status": "ok"}
        told.append({**row, "metrics": {key: said, "silo.4.distance": 9.0}})
    history(other, *told)
    spent = beside_ledger(RunFolder(other), "example")(seen)
    assert spent.epsilon == ledger.read(other / "clients" / "b").epsilon() > epsilon
    assert spent.unit == "example"
    # Without that of whoever has spent most, or with fewer lines, the others' would be too small.
    file = other / "clients" / "b" / ledger.LEDGER
    whole = file.read_text()
    file.write_text(whole.replace('"count": 9', '"count": 8'))
    with pytest.raises(InputError, match=r"b: ledger\.jsonl accounts an epsilon of .* put it back"):
        beside_ledger(RunFolder(other), "example")
    file.unlink()
    with pytest.raises(InputError, match=r"b: has 0 ledgers of releases .* the run had 1 there"):
        beside_ledger(RunFolder(other), "example")
    file.write_text(whole)
    (other / "clients" / "c" / "silo-4" / ledger.LEDGER).unlink()
    with pytest.raises(InputError, match="c: has 0 ledgers of releases"):
        beside_ledger(RunFolder(other), "example")


def history(folder: Path, *rows: dict[str, object]) -> None:
    """A run's history with these lines, of round 1."""
    lines = [json.dumps({"round": 1, **row}) for row in rows]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")


def test_rows_survive_the_file(tmp_path: Path) -> None:
    finding = Finding(
        "a", "server", "x, y", "AUC", 1 / 3, 0.5, 0.9, 0.9, 7, note='says "so"', unit="client"
    )
    row = Row(finding, 3, 8, True, "words.houses=2")
    write_rows(tmp_path / "audit.csv", [row])
    (read,) = read_rows(tmp_path / "audit.csv")
    assert dataclasses.replace(read, finding=finding) == row
    assert repr(read) == repr(row)  # NaN is not equal to itself
    assert finding.counts and not finding.refutes
