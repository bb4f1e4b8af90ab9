"""What a secure sum is put on, and who has to announce a key."""

import numpy as np
import pytest

from fedsuite.errors import RunFailed
from fedsuite.federation import ClientInfo, Reply
from fedsuite.privacy.sealing import ANNOUNCED
from strategies.sealed_keys import exchanged_keys
from strategies.sum_exchanges import mean_start


def test_changes_are_put_on_the_model_that_all_started_from_or_the_mean_of_theirs() -> None:
    one, other = np.array([0.1, 3.0], np.float32), np.array([0.3, -1.0], np.float32)
    weights = np.array([0.25, 0.75])
    same = mean_start([one, one.copy()], np.array([0.3, 0.6]))  # whatever the weights add up to
    assert same.dtype == np.float64 and same.tolist() == one.astype(np.float64).tolist()
    expected = 0.25 * one.astype(np.float64) + 0.75 * other.astype(np.float64)
    assert mean_start([one, other], weights) == pytest.approx(expected, rel=1e-12)


def test_no_messages_are_sealed_before_all_have_announced_a_key() -> None:
    clients = [ClientInfo(p, f"silo-{p}", 10) for p in range(3)]
    asking = exchanged_keys(clients)
    tasks = next(asking)
    assert [t.partition for t in tasks] == [0, 1, 2]
    assert all(t.expected == {"keys": ((ANNOUNCED,), "uint8")} for t in tasks)
    replies = [Reply(p, {"keys": np.zeros(ANNOUNCED, np.uint8)}, 0, {}) for p in range(3)]
    with pytest.raises(RunFailed, match="silo-1 did not announce a key;"):
        asking.send([replies[0], replies[2]])
    asking = exchanged_keys(clients)
    next(asking)
    assert [t.arrays["keys"].shape for t in asking.send(replies)] == [(3, ANNOUNCED)] * 3
    with pytest.raises(RunFailed, match="silo-0, silo-2 did not take the others' keys;"):
        asking.send([replies[1]])
