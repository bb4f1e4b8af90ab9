"""Walks side by side: what is drawn of each, and that no text of a user breaks it."""

from dataclasses import replace

import numpy as np
import pytest

from fedsuite.errors import InputError
from fedsuite.vln.data.floor_plan import FloorPlan
from fedsuite.vln.evaluation.following import Decision, InstructionWalk
from fedsuite.vln.report.walks import MOST_WORDS, compare_walks

POSITIONS_M = np.array([[0.0, 0, 1], [2, 0, 1], [2, 3, 1], [4, 3, 1]])
EDGES = np.diag(np.ones(3, bool), 1)
PLAN = FloorPlan("villa", tuple("abcd"), POSITIONS_M, EDGES, np.zeros(4, int), np.full(4, -1))
WORDS = ("<BOS>", "go", "to", "$x_$", "<EOS>")


def walk_of(*rows: int, words: tuple[str, ...] = WORDS, stopped: bool = True) -> InstructionWalk:
    ids = [PLAN.viewpoint_ids[r] for r in rows]
    decision = Decision(("stop", "b"), np.array([0.4, 0.6]), 1)
    times = len(rows) - (not stopped)
    attention = np.random.default_rng(len(rows)).dirichlet(np.ones(len(words)), times)
    return InstructionWalk(
        scan="villa", instr_id="7_0", words=words, unknown=words[3:4], left_out=0, viewpoints=tuple(ids),
        positions_m=POSITIONS_M[list(rows)], heading_rad=np.zeros(len(rows)), decisions=(decision,) * times,
        attention=attention, stopped=stopped, reference=("a", "b", "c"),
        scores={"ne": 2.0, "spl": 0.5, "ndtw": 0.25},
    )  # fmt: skip


SHORT, LONG = walk_of(0, 1, 2), walk_of(0, 1, 0, 1, 2, 3, stopped=False)


def images_of(figure) -> list:
    """Heat maps in order, without the bar of colours."""
    return [i for axes in figure.axes for i in axes.get_images() if axes.get_xticklabels()]


@pytest.mark.slow
def test_two_walks_on_the_same_path(tmp_path):
    figure = compare_walks(PLAN, {"federated": SHORT, "centralised": LONG})
    plans, heat = figure.axes[:2], figure.axes[2:4]
    if plans[1].get_images():  # axes come column by column or row by row
        plans, heat = figure.axes[:4:2], figure.axes[1:4:2]
    assert [p.get_title() for p in plans] == [
        "federated\nstopped after 2 moves, 5.0 m; 2.0 m from the goal, SPL 0.50, nDTW 0.25",
        "centralised\ncut off after 5 moves, 11.0 m; 2.0 m from the goal, SPL 0.50, nDTW 0.25",
    ]
    (first,), (second,) = (axes.get_images() for axes in heat)
    assert np.array_equal(first.get_array(), SHORT.attention)
    assert np.array_equal(second.get_array(), LONG.attention)
    assert first.get_clim() == second.get_clim(), "one bar of colours for both"
    rows = [[label.get_text() for label in axes.get_yticklabels()] for axes in heat]
    assert rows == [["1", "2", "3 (stop)"], ["1", "2", "3", "4", "5"]]
    assert [t.get_text() for t in heat[0].get_xticklabels()] == [*WORDS[:3], "$x_$*", "<EOS>"]
    legend = [t.get_text() for t in figure.legends[0].get_texts()]
    assert legend[:3] == ["federated", "centralised", "reference"]
    assert legend[-1] == "* not in the vocabulary"
    numbers = [t.get_text() for t in plans[1].texts]
    assert numbers == ["2", "1, 3", "4", "5"]  # after which decisions the agent stood there
    figure.savefig(tmp_path / "walks.png", dpi=40)  # dollar signs are no formulas


def test_the_reference_may_be_given_or_left_out():
    def dashed(figure) -> list[int]:
        lines = [c for c in figure.axes[0].collections if hasattr(c, "get_segments")]
        return [len(c.get_segments()) for c in lines][2:]  # after graph and walk

    assert dashed(compare_walks(PLAN, {"one": SHORT})) == [2]
    assert dashed(compare_walks(PLAN, {"one": SHORT}, ("a", "b", "c", "d"))) == [3]
    assert dashed(compare_walks(PLAN, {"one": SHORT}, ())) == []


def test_long_instructions_go_on_below():
    words = ("<BOS>", *(f"word{i}" for i in range(MOST_WORDS + 9)), "<EOS>")
    long = walk_of(0, 1, words=words)
    figure = compare_walks(PLAN, {"one": long})
    parts = [i.get_array() for axes in figure.axes[1:3] for i in axes.get_images()]
    assert [p.shape[1] for p in parts] == [26, 25]
    assert np.array_equal(np.hstack(parts), long.attention)


def test_hostile_words_and_names():
    words = ("<BOS>", "\x1b[31mred\n", "a" * 5000, "\udc80$", "<EOS>")
    walk = walk_of(0, 1, words=words)
    figure = compare_walks(PLAN, {"\x1b]0;x\x07run$": walk})
    labels = [t.get_text() for t in figure.axes[1].get_xticklabels()]
    assert all(len(t) < 20 and t.isprintable() for t in labels)
    assert figure.axes[0].get_title().startswith(" run$\n")


def test_large_houses_are_drawn_around_the_walk():
    small = compare_walks(PLAN, {"one": SHORT}).axes[0]
    assert small.get_xlim() == pytest.approx((-0.6, 4.6))
    large = replace(PLAN, position_m=POSITIONS_M * 10)
    assert compare_walks(large, {"one": walk_of(0, 1)}, ()).axes[0].get_xlim() == pytest.approx(
        (-0.6, 26.6)
    )


def test_refused():
    with pytest.raises(InputError, match="other: the walk is in hut, the plan is of villa"):
        compare_walks(PLAN, {"one": SHORT, "other": replace(SHORT, scan="hut")})
    with pytest.raises(InputError, match="0 walks to draw; give 1 to 6"):
        compare_walks(PLAN, {})


def test_summary_without_a_goal():
    assert replace(walk_of(0, 1), scores={}).summary == "stopped after 1 move, 2.0 m"
