"""The built-in systems without pictures and tables, for benchmarks that make whole runs."""

import dataclasses
from typing import Any

from simulations.systems import System, load_system


def _undrawn(name: str) -> System[Any]:
    return dataclasses.replace(load_system(name), report=lambda *_: None, draw=lambda *_: None)


HOUSES, ROADS = _undrawn("fedvln"), _undrawn("cdl")
