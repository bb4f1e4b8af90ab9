"""`fedsuite audit` on tiny FedVLN runs: words, members and canaries, and what a defence changes of them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from fedsuite.averaging.exchange import Codec
from fedsuite.errors import InputError
from fedsuite.history import load_run
from fedsuite.history.finished import open_finished
from fedsuite.privacy.findings import AT_LEAST
from fedsuite.privacy.ledger import read
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.instructions import EOS, Vocabulary
from fedsuite.vln.data.roster import open_house
from fedsuite.vln.data.sources import places_of
from simulations.fedvln.audit import attacks
from simulations.fedvln.updates import undefended
from tests.fedvln_runs import TINY
from tests.harness import changed, config_from, recorded

Call = Callable[..., tuple[int, str, str]]
FEW = ("--set", "membership.control-steps=60", "--quick")
LARGER = {"generated-paths-per-house": 8, "num-rounds": 2}


def _noised(change: np.ndarray) -> Mapping[str, np.ndarray]:
    """Noise a hundred times as long as the change: a stand-in for what hides rows."""
    rng = np.random.default_rng(int(abs(change).sum() * 1e6) % 2**32)
    scale = 100 * np.abs(change).max() + 1e-6
    return {"x": (change + rng.normal(0, scale, change.shape)).astype(np.float32)}


NOISED = Codec(
    _noised, lambda parts, shape: parts["x"], lambda shape: {"x": (shape, "float32")}, False
)


def play(folder: Path, cache: Path, name: str = "run", **changes: object) -> Path:
    values = {
        **TINY,
        **LARGER,
        "system": "fedvln",
        "name": name,
        "results-dir": str(folder / "runs"),
    }
    recorded(config_from({**values, "cache-dir": str(cache)}, **changes))
    return folder / "runs" / name


def rows_of(run: Path) -> dict[tuple[str, str], Mapping[str, object]]:
    lines = load_run(run).audit.to_dict("records")
    return {(str(line["target"]), str(line["measure"])): line for line in lines}


@pytest.fixture
def run(tmp_path: Path, cache: Path) -> Path:
    return play(tmp_path, cache)


def test_all_attacks_on_a_run_that_nothing_defends(run: Path, call: Call) -> None:
    code, _, err = call("audit", "run", *FEW, engine=False)
    assert code == 0, err
    rows = rows_of(run)
    words = {m: rows["words of a house", m] for m in ("precision", "recall", "F-score", "Spearman")}
    for measure in ("precision", "recall"):
        line = words[measure]
        assert line["value"] == line["undefended"] and line["counts"]
        assert (
            line["value"] >= 0.96 > line["chance"] and line["low"] <= line["value"] <= line["high"]
        )
    assert words["precision"]["value"] == 1.0 == words["precision"]["control"]
    for attack in ("loss threshold", "LiRA"):
        line = rows[f"an instruction, {attack}", "AUC"]
        assert (
            line["counts"]
            and line["control"] >= 0.9
            and 0 < line["low"] < line["value"] < line["high"] < 1
        )
        assert rows[f"an instruction, {attack}", "TPR at 1 % FPR"]["value"] <= 1
        assert (f"a house, {attack}", "AUC") in rows
    (bound,) = (line for (_, measure), line in rows.items() if measure == AT_LEAST)
    assert bound["counts"] and bound["value"] == bound["control"] > 0.5  # all coins are told
    assert "4 shadows" in str(rows["an instruction, LiRA", "AUC"]["note"])


def test_noise_hides_words_and_coins_and_the_control_still_succeeds(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    name = "tests.simulations.fedvln.test_fedvln_audit:NOISED"
    run = play(tmp_path, cache, codec=name)
    arguments = ("--attacks", "words,canaries", "--set", "canaries.visits=6")
    code, _, err = call("audit", "run", *arguments, engine=False)
    assert code == 0, err
    rows = rows_of(run)
    precision = rows["words of a house", "precision"]
    assert precision["counts"] and precision["control"] == precision["undefended"] == 1.0
    assert precision["value"] < 0.95
    bounds = [line for (_, measure), line in rows.items() if measure == AT_LEAST]
    assert len(bounds) == 2 and bounds[0]["value"] < bounds[0]["undefended"]


def test_what_does_not_leave_tells_nothing(tmp_path: Path, cache: Path, call: Call) -> None:
    """Houses that share their decoders alone: no table of words on the wire, and no whole agent with the server."""
    run = play(tmp_path, cache, share="decoder")
    code, _, err = call("audit", "run", "--attacks", "words,membership", *FEW, engine=False)
    assert code == 0 and "no whole agent" in err, err
    rows = rows_of(run)
    assert {measure for _, measure in rows} == {"precision", "recall", "F-score", "Spearman"}
    recall = rows["words of a house", "recall"]
    assert (recall["value"], recall["undefended"]) == (0.0, 1.0) and recall["counts"]


def test_control_variates_tell_what_their_corrections_would_hide(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    """Corrections move the rows of words that a house does not use; what it sends beside the model is its mean gradient."""
    run = play(tmp_path, cache, aggregation="parallel", control_variates=True)
    few = ("--set", "views.decisions=4")
    code, _, err = call("audit", "run", "--attacks", "words,views,canaries", *few, engine=False)
    assert code == 0, err
    rows = rows_of(run)
    visit = "an attended view, from a first visit of one decision"
    ways = {way: rows[visit + way, "cosine"] for way in ("", ", from its control variates")}
    assert ways[", from its control variates"]["value"] > 0.999 > ways[""]["value"]
    assert ways[", from its control variates"]["counts"]
    found = {m: rows["words of a house", m]["value"] for m in ("precision", "recall")}
    assert found == {"precision": 1.0, "recall": 1.0}
    (bound,) = (line for (_, measure), line in rows.items() if measure == AT_LEAST)
    assert bound["counts"] and bound["value"] == bound["control"] > 0


def test_a_run_with_differential_privacy_is_attacked_as_it_is(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    """Noise goes on the merged model: the server still sees words, and the epsilon stands beside what is given out."""
    run = play(tmp_path, cache, **{"privacy.unit": "client", "privacy.noise-multiplier": 2.0})
    before = (run / "ledger.jsonl").read_bytes()
    code, _, err = call("audit", "run", "--attacks", "words,membership", *FEW, engine=False)
    assert code == 0, err
    rows = rows_of(run)
    precision = rows["words of a house", "precision"]
    assert precision["value"] == 1.0 and "does not cover" in str(precision["note"])
    assert rows["an instruction, LiRA", "AUC"]["epsilon"] == pytest.approx(read(run).epsilon())
    assert (
        run / "ledger.jsonl"
    ).read_bytes() == before  # what is played again costs the run nothing


def test_equal_audits_are_equal(run: Path, call: Call) -> None:
    arguments = ("audit", "run", "--attacks", "words,canaries", "--overwrite")
    call(*arguments, engine=False)
    first = (run / "audit.csv").read_bytes()
    call(*arguments, engine=False)
    assert (run / "audit.csv").read_bytes() == first


def test_houses_that_share_a_message_are_attacked_each_by_itself(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    """Such messages carry sums of several houses, and in simulations alone."""
    found = []
    for houses in (2, 0):
        summed = {"aggregation": "parallel", "generated_seen_houses": 4}
        run = play(tmp_path, cache, name=f"of-{houses}", houses_per_message=houses, **summed)
        attacked = ("--attacks", "words,canaries,views", "--set", "views.decisions=4")
        code, _, err = call("audit", run.name, *attacked, engine=False)
        assert code == 0, err
        found.append((run / "audit.csv").read_text(encoding="utf-8"))
    assert found[0] == found[1]
    rows = rows_of(run)
    assert rows["words of a house", "recall"]["n"] == sum(map(len, words_of_houses(run)))


@pytest.mark.parametrize("method", ["federated", "local-only"])
def test_a_control_has_canaries_in_the_houses_of_its_own_round(
    tmp_path: Path, cache: Path, call: Call, method: str
) -> None:
    """One house of three takes part in a round, and in round 1 another one than in the last."""
    few = {"generated_seen_houses": 3, "participation_rate": 0.4, "method": method}
    run = play(tmp_path, cache, **few)
    last = Checkpoints(RunFolder(run).checkpoints).latest()
    assert last and sorted(last.trained.values()) == [1, 2]
    code, _, err = call("audit", "run", "--attacks", "words,canaries", engine=False)
    assert code == 0, err
    rows = rows_of(run)
    (bound,) = (line for (_, measure), line in rows.items() if measure == AT_LEAST)
    assert "canaries in 1 houses" in str(bound["note"])
    most = float(str(bound["note"]).split("at most ")[1].split()[0])
    assert bound["counts"] and bound["value"] == pytest.approx(most, abs=0.01) and most > 1
    recall = rows["words of a house", "recall"]
    assert recall["value"] == 1.0 and recall["counts"]


def test_of_a_client_that_uses_all_words_none_are_told(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    run = play(tmp_path, cache, method="centralised")
    code, _, err = call("audit", "run", "--attacks", "words,canaries", engine=False)
    assert code == 0 and not rows_of(run), err
    assert "words: left out, the members of a round use all words" in err
    assert "canaries: the houses of the round use all words" in err


def test_stages_without_attacks_are_refused() -> None:
    with pytest.raises(InputError, match="speaker has no attacks"):
        attacks(changed(FedVLNConfig(), stage="speaker"))


def test_what_defends_a_run() -> None:
    assert undefended(FedVLNConfig()) == {}
    shared = changed(FedVLNConfig(), share="language-encoder")
    assert undefended(shared) == {"federation.share": "agent"}


def test_of_a_secure_sum_the_server_learns_the_words_of_all_together(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    """Of one house it finds no more than whoever knows the words of all that took part; where it names those that move
    most alone it may be right more often, and finds fewer."""
    summed = {"aggregation": "parallel", "secure_sum": True, "generated_seen_houses": 4}
    run = play(tmp_path, cache, **summed)
    code, _, err = call("audit", "run", "--attacks", "words", engine=False)
    assert code == 0, err
    rows = rows_of(run)
    found = {m: rows["words of a house", m] for m in ("precision", "recall", "F-score")}
    used = [words for words in words_of_houses(run) if words]
    named = set().union(*used)
    precision = sum(len(named & words) for words in used) / (len(named) * len(used))
    union = 2 * precision / (precision + 1)  # F-score: every word of a house is among those of all
    assert len(used) == 4 and precision < 0.8
    assert all(line["counts"] and line["undefended"] >= 0.96 for line in found.values())
    assert 0 < found["F-score"]["value"] <= union + 0.05 < 0.96
    assert found["precision"]["value"] < 0.96
    beyond = {
        m: rows["words of a house, beyond the words of all in the sum", m]
        for m in found
        if m != "recall"
    }
    for measure, reached in (("precision", precision), ("F-score", union)):
        line = beyond[measure]
        assert line["value"] == pytest.approx(found[measure]["value"] - reached)
        assert line["control"] == pytest.approx(1 - reached, abs=0.02) and line["counts"]


def words_of_houses(run: Path) -> list[set[int]]:
    """Numbers of the words in every house's training instructions, without symbols that all have."""
    config, roster = open_finished(run, FedVLNConfig)[1], read_roster(run / ROSTER)
    words, places, found = Vocabulary(roster.words), places_of(config), list[set[int]]()
    for member in roster.members:
        known = zip(member.names("houses"), member.listed("numbers", int), strict=True)
        houses = [open_house(config, places, scan, number, words) for scan, number in known]
        samples = [s for house in houses for s in house.samples.get("train", ())]
        tokens = {int(token) for sample in samples for token in sample.tokens}
        found.append(tokens - {*range(EOS + 1), len(roster.words) - 1})
    return found


VIEWS = ("audit", "run", "--attacks", "views", "--set", "views.decisions=4")


def test_views_of_single_decisions_are_told(run: Path, call: Call) -> None:
    code, _, err = call(*VIEWS, engine=False)
    assert code == 0, err
    cosines = {target: line for (target, _), line in rows_of(run).items()}
    plain = cosines["an attended view, from a plain step of one decision"]
    assert plain["value"] == pytest.approx(1, abs=1e-3) and plain["chance"] < 0.9
    first = "an attended view, from a first visit of one decision"
    raw, signs, undone = (
        cosines[first + way] for way in ("", ", from its signs", ", RMSprop's step undone")
    )
    assert (
        raw["value"] == pytest.approx(signs["value"], abs=0.05) and raw["value"] < undone["value"]
    )
    assert undone["value"] > raw["chance"]
    assert "one of the attended views, from a visit as sent" in cosines
    for line in cosines.values():
        assert line["counts"] and line["control"] == pytest.approx(1, abs=1e-6)
        assert line["value"] == line["undefended"]


def test_houses_that_share_their_encoders_send_no_view(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    run = play(tmp_path, cache, share="language-encoder")
    code, _, err = call(*VIEWS, engine=False)
    assert code == 0, err
    for line in rows_of(run).values():
        assert line["value"] == line["low"] == line["high"] == 0.0
        assert line["counts"] and line["undefended"] > max(0.0, line["chance"])
        assert line["note"] == "no array that reads views leaves a house"


def test_of_a_secure_sum_views_come_mixed_and_canaries_are_in_it(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    """Canaries that were not put in behind the masks would seem to be hidden by them."""
    summed = {"aggregation": "parallel", "secure_sum": True, "generated_seen_houses": 4}
    run = play(tmp_path, cache, **summed)
    arguments = ("--attacks", "views,canaries", "--set", "views.decisions=4")
    code, _, err = call("audit", "run", *arguments, engine=False)
    assert code == 0, err
    rows = rows_of(run)
    plain = rows["an attended view, from a plain step of one decision", "cosine"]
    assert plain["n"] == 1 and 0 < plain["value"] < 0.99 < plain["undefended"]
    (bound,) = (line for (_, measure), line in rows.items() if measure == AT_LEAST)
    assert bound["counts"] and 0 < bound["value"] <= bound["control"]


def test_noise_in_every_step_hides_views(tmp_path: Path, cache: Path, call: Call) -> None:
    noise = {"privacy.unit": "example", "privacy.noise-multiplier": 2.0, "privacy.noise": "seeded"}
    noise |= {"objective.kind": "none"}
    run = play(tmp_path, cache, **noise)
    code, _, err = call(*VIEWS, engine=False)
    assert code == 0, err
    cosines = {target: line for (target, _), line in rows_of(run).items()}
    assert "an attended view, from a plain step of one decision" not in cosines
    first = cosines["an attended view, from a first visit of one decision, RMSprop's step undone"]
    assert first["counts"] and first["value"] < first["undefended"] - 0.1


def test_noise_of_the_members_hides_what_a_sum_tells(
    tmp_path: Path, cache: Path, call: Call
) -> None:
    """An audit plays sums of its own, of which the run's ledger knows nothing."""
    summed = {"aggregation": "parallel", "secure_sum": True, "generated_seen_houses": 4}
    noise = {"privacy.unit": "client", "privacy.noise-multiplier": 2.0, "privacy.noise": "seeded"}
    run = play(tmp_path, cache, **summed, **noise)
    ledger = (run / "ledger.jsonl").read_bytes()
    arguments = ("--attacks", "views,canaries", "--set", "views.decisions=4")
    code, _, err = call("audit", "run", *arguments, engine=False)
    assert code == 0, err
    assert (run / "ledger.jsonl").read_bytes() == ledger
    lines = rows_of(run)
    assert not any("plain step" in target for target, _ in lines)
    assert {line["epsilon"] for line in lines.values()} == {read(run).epsilon()}
    first = lines["an attended view, from a first visit of one decision", "cosine"]
    assert first["counts"] and first["value"] < first["undefended"] - 0.2
    (bound,) = (line for (_, measure), line in lines.items() if measure == AT_LEAST)
    assert bound["counts"] and bound["value"] < bound["control"]
    assert bound["value"] <= bound["epsilon"]
