"""Visits that take turns: who asks is answered with all others, an error ends all."""

import threading

import pytest

from clients.side_by_side import aside, side_by_side


def test_questions_of_all_are_answered_together():
    seen, running = [], []

    def visit(name, questions):
        def run(ask):
            heard = []
            for number in range(questions):
                running.append(name)
                assert running == [name]  # nobody else is under way
                running.remove(name)
                heard.append(ask((name, number)))
            return name, heard

        return run

    def answers(asked):
        seen.append(list(asked))
        return [f"{name}{number}" for name, number in asked]

    found = side_by_side([visit("a", 2), visit("b", 0), visit("c", 3)], answers)
    assert found == [("a", ["a0", "a1"]), ("b", []), ("c", ["c0", "c1", "c2"])]
    assert seen == [[("a", 0), ("c", 0)], [("a", 1), ("c", 1)], [("c", 2)]]


@pytest.mark.parametrize("where", ["visit", "answers"])
def test_an_error_ends_all_and_leaves_no_thread(where):
    before, ended = threading.active_count(), []

    def waiting(ask):
        try:
            return ask(1)
        finally:
            ended.append(True)

    def failing(ask):
        if where == "visit":
            raise ValueError("no light")
        return ask(2)

    def answers(asked):
        raise ValueError("no light")

    with pytest.raises(ValueError, match="no light"):
        side_by_side([waiting, failing], answers)
    assert ended == [True]
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(1)
    assert threading.active_count() == before


def test_work_aside_is_done_at_the_same_time():
    """And its error is that of the visit that asked for it, which may go on."""
    meeting, asked = threading.Barrier(2), []

    def meets(ask):
        return aside(ask, lambda: meeting.wait(20) >= 0), ask("then")

    def stumbles(ask):
        with pytest.raises(ZeroDivisionError):
            aside(ask, lambda: 1 // 0)
        return ask("after all")

    def answers(questions):
        asked.append(list(questions))
        return [word.upper() for word in questions]

    found = side_by_side([meets, lambda ask: ask("at once"), meets, stumbles], answers)
    assert found == [(True, "THEN"), "AT ONCE", (True, "THEN"), "AFTER ALL"]
    assert asked == [["at once"], ["then", "then", "after all"]]


def test_work_is_done_where_nobody_is_beside():
    assert aside(None, threading.get_ident) == threading.get_ident()
