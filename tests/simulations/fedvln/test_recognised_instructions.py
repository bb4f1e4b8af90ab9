"""Instructions are recognised in visits by the signs of their gradients: halves, controls, and what a defence changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsuite.arrays import Arrays
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.history import load_run
from fedsuite.history.finished import open_finished
from fedsuite.privacy.attacks.attack_settings import AttackSettings, RecognitionSettings
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.storage.progress import silent
from fedsuite.vln.config import FedVLNConfig
from simulations.audits.audited import Audited
from simulations.audits.replayed import Visit
from simulations.fedvln.recognition import _areas, _control, _halves, _tried, recognition
from simulations.fedvln.system import SYSTEM
from simulations.fedvln.updates import houses_of, undefended, updates
from tests.simulations.fedvln.test_fedvln_audit import play

Call = Callable[..., tuple[int, str, str]]
PATH, ALONE = (
    f"{what}, from a visit" for what in ("an instruction and its path", "an instruction")
)
CODEC = "tests.simulations.fedvln.test_fedvln_audit:NOISED"
PARALLEL = {"aggregation": "parallel", "generated_seen_houses": 4}


def audited(run: Path, seed: int = 0, **settings: int) -> Audited:
    _, config = open_finished(run, FedVLNConfig)
    attack = AttackSettings(recognition=RecognitionSettings(**settings))
    roster = read_roster(run / ROSTER)
    return Audited(SYSTEM, config, RunFolder(run), roster, attack, seed, False, silent)


FEW = "--set", "recognition.instructions=6"


def rows_of(run: Path, call: Call, *settings: str) -> dict[str, Mapping[str, object]]:
    code, _, err = call("audit", run.name, "--attacks", "recognition", *settings, engine=False)
    assert code == 0, err
    return {str(line["target"]): line for line in load_run(run).audit.to_dict("records")}


def test_instructions_of_a_visit_score_higher_than_others(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    run = play(tmp_path, cache, local_epochs=3)
    rows = rows_of(run, call)
    assert {*rows} == {PATH, ALONE}
    for line in rows.values():
        assert line["counts"] and line["control"] > 0.99 and line["chance"] == 0.5
        assert line["low"] <= line["value"] <= line["high"] and line["n"] == 4
        assert line["value"] == line["undefended"]
    assert rows[PATH]["value"] > 0.65 and rows[PATH]["value"] > rows[ALONE]["value"]


@pytest.mark.parametrize("paths", [True, False])
def test_every_instruction_is_in_one_half(tmp_path: Path, cache: Path, paths: bool) -> None:
    run = play(tmp_path, cache)
    both = _halves(audited(run), paths)
    assert sorted(both[0]) == sorted(both[1]) == [0, 1]  # houses that train
    for partition in (0, 1):
        samples = [s for h in houses_of(audited(run), partition) for s in h.samples["train"]]
        names = {(s.scan, s.instr_id): s.path for s in samples}
        one, other = ({*half[partition]} for half in both)
        assert one | other == names.keys() and not one & other and one and other
        shared = {names[n] for n in one} & {names[n] for n in other}
        assert bool(shared) != paths
        assert abs(len({names[n] for n in one}) - len({names[n] for n in other})) < 4
    assert _halves(audited(run), paths) == both != _halves(audited(run, seed=1), paths)


def test_few_houses_and_instructions_are_attacked(tmp_path: Path, cache: Path) -> None:
    run = play(tmp_path, cache)
    found = [*recognition(audited(run, houses=1, instructions=3))]
    assert [f.n for f in found] == [2, 2]
    pairs = [f.value * 2 * 3 * 3 for f in found]  # of a mean of two areas, of three by three
    assert [round(2 * p) / 2 for p in pairs] == pytest.approx(pairs)  # ties count half
    assert all(np.isnan(f.low) for f in found)  # of one house


def test_noise_hides_instructions(tmp_path: Path, cache: Path) -> None:
    """A codec that adds a hundred times as much, on the same visits."""
    runs = (
        play(tmp_path, cache, name, local_epochs=3, codec=codec)
        for name, codec in (("open", "none"), ("noised", CODEC))
    )
    found = []
    for audit in map(audited, runs):
        both = _halves(audit, True)
        found.append(float(_areas(audit, {}, both, False)[1].mean()))
    assert found[0] > found[1] + 0.1
    assert _control(audit, undefended(audit.config)) > 0.99 > _control(audit, {}) + 0.1


def test_of_secure_sums_the_sum_is_attacked(tmp_path: Path, cache: Path, call: Call) -> None:
    rows = rows_of(play(tmp_path, cache, secure_sum=True, **PARALLEL), call, *FEW)
    for line in rows.values():
        assert line["counts"] and line["value"] != line["undefended"] and line["n"] == 8
        assert "undefended: in round 1" in str(line["note"])


def test_control_variates_and_parts_of_agents_are_attacked_too(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    varied = play(tmp_path, cache, "varied", control_variates=True, **PARALLEL)
    encoder = play(tmp_path, cache, "encoder", share="language-encoder")
    for run in (varied, encoder):
        rows = rows_of(run, call, *FEW)
        assert all(line["counts"] and line["value"] > 0.5 for line in rows.values()), rows
    assert rows[PATH]["undefended"] != rows[PATH]["value"]


def test_control_variates_are_attacked_in_place_of_the_update(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = audited(play(tmp_path, cache, control_variates=True, **PARALLEL), houses=2)
    half = _halves(audit, True)[0]
    with_variates = _tried(audit, {}, half, False)

    def alone(*given: Any) -> list[tuple[Visit, Arrays]]:
        made = updates(*given)
        assert any(k.startswith(CONTROL) for _, model in made for k in model)
        return [(v, {k: a for k, a in m.items() if not k.startswith(CONTROL)}) for v, m in made]

    monkeypatch.setattr("simulations.fedvln.recognition.updates", alone)
    without = _tried(audit, {}, half, False)
    assert with_variates.keys() == without.keys() and with_variates != without


def test_houses_of_a_single_path_are_left_out(tmp_path: Path, cache: Path, call: Call) -> None:
    run = play(tmp_path, cache, generated_paths_per_house=1)
    code, _, err = call("audit", "run", "--attacks", "recognition", engine=False)
    assert code == 0 and "recognition: left out, no house has instructions of two paths" in err
    assert load_run(run).audit.empty


def test_rounds_without_a_house_to_attack_are_left_out(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[str]()
    audit = audited(play(tmp_path, cache))
    audit = replace(audit, progress=lambda text, *_: told.append(text))
    monkeypatch.setattr("simulations.fedvln.recognition._tried", lambda *_: {})
    assert [*recognition(audit)] == []
    assert [text.partition(":")[0] for text in told] == [
        "recognition, an instruction and its path",
        "recognition, an instruction",
    ]


def test_equal_audits_are_equal(tmp_path: Path, cache: Path) -> None:
    run = play(tmp_path, cache)
    first, again = ([*recognition(audited(run, instructions=3))] for _ in range(2))
    assert first == again and len(first) == 2
