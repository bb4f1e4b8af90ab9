"""What an attack is given of a finished run, and what it returns.

An attack is a function of an `Audited` that yields a Finding for every number that it reached. A system names its attacks in
`System.audit`. What a client sends is had by `played`, which plays a round again with the system's own clients: an attack on
messages sees what the server saw, and nothing else.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import safetensors.numpy

from fedsuite.arrays import Arrays
from fedsuite.privacy.attacks.attack_settings import AttackSettings
from fedsuite.privacy.findings import Finding
from fedsuite.randomness import rng_for
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints
from fedsuite.settings.values import Value
from fedsuite.storage.progress import Progress
from simulations.audits.replayed import Altered, Round, replay
from simulations.systems import System


@dataclass(frozen=True, eq=False)
class Audited:
    """config: the run's settings; roster: of the data at hand, which are the run's; attack, seed, quick: of the audit."""

    system: System[Any]
    config: Any
    folder: RunFolder
    roster: Roster
    attack: AttackSettings
    seed: int
    quick: bool
    progress: Progress

    @cached_property
    def model(self) -> Arrays:
        """What the server has in the end, and whoever is given the model."""
        return dict(safetensors.numpy.load_file(self.folder.model))

    @cached_property
    def round(self) -> int:
        """After which the run has ended."""
        return max(Checkpoints(self.folder.checkpoints).rounds(), default=0)

    @cached_property
    def trained(self) -> frozenset[int]:
        """The partitions that have trained in some round."""
        last = Checkpoints(self.folder.checkpoints).latest()
        return frozenset(last.trained) if last else frozenset()

    @cached_property
    def steps(self) -> int:
        """The run's longest chain of optimizer steps, each of which needed the one before."""
        last = Checkpoints(self.folder.checkpoints).latest()
        return int(last.state.scalars.get("serial-depth", 0)) if last else 0

    def rng(self, purpose: str, number: int = 0) -> np.random.Generator:
        """A stream of the audit's own."""
        return rng_for(self.seed, f"audit, {purpose}", number)

    def played(
        self,
        changes: Mapping[str, Value] | None = None,
        altered: Altered = lambda client: client,
        first: bool = False,
    ) -> Round:
        """A round as the server saw it; changes: keys with other values; first: round 1, from a new start."""
        what = "round 1" if first else "the last checkpointed round"
        told = f", {', '.join(f'{k} = {v}' for k, v in changes.items())}" if changes else ""
        self.progress(f"playing {what} again{told}")
        parts = self.system, self.config, self.roster, self.folder
        return replay(*parts, changes, altered, first)


Attack = Callable[[Audited], Iterator[Finding]]
