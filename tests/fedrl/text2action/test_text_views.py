"""What a party sees of a text: records against a reader that keeps plain lists."""

import numpy as np
import pytest
import torch

from fedsuite.fedrl.text2action.views import TextTable, TextView, records_at
from fedsuite.fedrl.worlds import IDLE


def texts(lengths: tuple[int, ...] = (5, 1, 40, 33, 8), seed: int = 0) -> TextTable:
    """Random samples of the given lengths."""
    rng = np.random.default_rng(seed)
    longest = max(lengths)
    real = np.arange(longest) < np.array(lengths)[:, None]
    vectors = rng.standard_normal((12, 6)).astype(np.float32)
    vectors[0] = 0
    shape = (len(lengths), longest)
    return TextTable(
        pos_ids=rng.integers(1, 9, shape) * real,
        word_ids=rng.integers(0, 12, shape) * real,
        lengths=np.array(lengths),
        action_index=None,
        max_words=50,
        word_vectors=vectors,
        num_tags=9,
    )


def test_reading_equals_plain_lists() -> None:
    """Random actions, idle envs and envs past their last word included."""
    table = texts()
    view = TextView(table, "beta", np.array([2, 0, 3]), envs=4)
    rng = np.random.default_rng(1)
    view.begin(np.array([0, 1, 3]), np.array([0, 1, 2]))
    rows, read = [2, 0, 2, 3], [[], [], [], []]  # env 2 stands on the first text of the split
    for _ in range(90):
        actions = rng.choice([IDLE, 0, 1], 4)
        expected = [list(r) for r in read]
        before, after = view.move(actions)
        for env, action in enumerate(actions):
            if action != IDLE and len(read[env]) < table.lengths[rows[env]]:
                read[env].append(int(action))
        for records, lists in ((before, expected), (after, read), (view.records(), read)):
            of_rows, tags = view.inputs(records)
            assert of_rows.tolist() == rows
            padded = [[a + 1 for a in r] + [0] * (table.longest - len(r)) for r in lists]
            assert tags.tolist() == padded
    assert [len(r) for r in read] == [len(r) for r in expected] == [40, 5, 40, 33]


def test_records_at_are_the_records_of_a_walk() -> None:
    """States that demonstrations name directly are those that walking there gives, bits of the future left out."""
    table = texts()
    view = TextView(table, "alpha", np.arange(5), envs=5)
    view.begin(np.arange(5), np.arange(5))
    selected = np.random.default_rng(3).random((5, table.longest)) < 0.5
    for t in range(41):
        positions = np.minimum(t, table.lengths)
        wanted = records_at(view.table, np.arange(5), positions, selected)
        assert np.array_equal(view.records(), wanted)
        if t < 40:
            view.move(selected[:, t].astype(int))


def test_records_are_compact_and_of_one_type() -> None:
    """40 words take two numbers for where, two for what."""
    view = TextView(texts(), "full", np.arange(5), envs=2)
    assert view.records().dtype == np.int32 and view.records().shape == (2, 4)
    _, tags = view.inputs(view.records())
    assert tags.dtype == torch.uint8 and tags.shape == (2, 40)


def test_going_on_from_a_state() -> None:
    """A restored view says the same as the one that was stopped, and shares no memory with it."""
    table, rng = texts(), np.random.default_rng(5)
    one, other = (TextView(table, "alpha", np.arange(5), envs=3) for _ in range(2))
    one.begin(np.arange(3), np.array([2, 3, 4]))
    for _ in range(10):
        one.move(rng.integers(0, 2, 3))
    state = one.state()
    other.restore(state)
    for _ in range(10):
        actions = rng.integers(0, 2, 3)
        assert np.array_equal(one.move(actions), other.move(actions))
    one.restore(state)
    assert not np.array_equal(one.records(), other.records())
    with pytest.raises(ValueError, match="expected shape"):
        TextView(table, "alpha", np.arange(5), envs=4).restore(state)


def test_wrong_input_is_refused() -> None:
    """Actions, roles and states that do not exist."""
    table = texts()
    view = TextView(table, "alpha", np.arange(5), envs=2)
    with pytest.raises(ValueError, match="expected actions 0, 1 or -1"):
        view.move(np.array([0, 2]))
    with pytest.raises(ValueError, match="expected positions"):
        records_at(view.table, np.array([0]), np.array([6]), np.zeros((1, 40), bool))
