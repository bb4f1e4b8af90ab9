"""Scores of the houses' own agents in a line of a table, against numbers worked out by hand."""

import csv
import math
from pathlib import Path

import pytest

from benchmarks.personal_houses import score, scores_of
from fedsuite.vln.evaluation.elsewhere import columns, other_houses, worst_tenth
from tests.fedvln_runs import Chain, chain_in


def test_the_worst_tenth_is_rounded_up() -> None:
    twelve = [0.5, 0.2, 0.9, 0.4, 0.3, 0.8, 0.1, 0.6, 0.7, 0.55, 0.35, 0.45]
    assert worst_tenth(twelve) == pytest.approx(0.15)
    assert worst_tenth([0.4, 0.2]) == 0.2


def test_others_are_three_drawn_from_the_seed() -> None:
    drawn = [other_houses(1, 8, own) for own in range(8)]
    assert all(len(set(o)) == 3 and o == sorted(o) for o in drawn)
    assert all(own not in o and set(o) <= set(range(8)) for own, o in enumerate(drawn))
    assert drawn == [other_houses(1, 8, own) for own in range(8)]
    assert drawn != [other_houses(2, 8, own) for own in range(8)]
    assert other_houses(0, 3, 1) == [0, 2]


def test_houses_with_few_instructions_count_but_not_among_the_worst() -> None:
    found = columns({0: 0.5, 1: 0.0, 2: 0.25}, {0: 10, 1: 4, 2: 5}, {0: 0.2, 1: 0.4, 2: 0.6})
    assert found["own"] == pytest.approx(0.25) and found["others"] == pytest.approx(0.4)
    assert found["own-instructions"] == pytest.approx((5 + 1.25) / 19)
    assert (found["worst-tenth"], found["left-out"], found["houses"]) == (0.25, 1, 3)
    assert math.isnan(columns({0: 1.0}, {0: 4}, {0: 1.0})["worst-tenth"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{}, {"local_method": "ditto"}, {"method": "local-only"}], ids=str
)
def test_a_finished_run_in_one_line(
    changes: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two houses: each one's agent is tried in the other, and at home as the run itself scored it."""
    chain: Chain = chain_in(tmp_path_factory.getbasetemp(), __name__)
    name = f"line-{'-'.join(changes.values()) or 'fedavg'}"
    chain.play(name, "train", num_rounds=2, learning_rate=3e-2, **changes)
    run: Path = chain.run(name)
    found = scores_of(run)
    file = tmp_path_factory.mktemp("scores") / "scores.csv"
    score(file, [run])
    score(file, [run])  # is there already
    (line,) = csv.DictReader(file.open())
    assert (line["seed"], float(line["own"])) == ("0", pytest.approx(found["own"], abs=1e-5))
    assert found["houses"] == 2 and 0 <= found["own"] <= 1 and 0 <= found["others"] <= 1
    if not changes:  # one agent: what it scores in the other house is what it scores there at home
        assert found["others"] == pytest.approx(found["own"])
