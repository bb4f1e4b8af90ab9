"""What is said while Ray starts."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from fedsuite.history import Kind, event, line_about
from simulations.engines.ray import waiting
from simulations.engines.ray.waiting import Waiting


def test_what_is_waited_for_is_said_until_the_run_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "EVERY_S", 0.01)
    told: list[Mapping[str, Any]] = []
    several = threading.Event()

    def hear(event: Mapping[str, Any]) -> None:
        told.append(event)
        if len(told) == 3:
            several.set()

    with Waiting(hear) as now:
        now.what = "Ray to start"
        assert several.wait(30)
        now.show(event(0, Kind.READY))
    assert line_about(told[2]) == "waiting for Ray to start, 0 s"
    assert told[-1]["kind"] == "ready" or told[-2]["kind"] == "ready"  # a tick may be under way
    assert not now._ticking.is_alive()
