"""A sweep typed on the command line, over any configuration:

fedsuite sweep CONFIG.toml --vary local-epochs=1,2,5 --metric val_unseen.sr --target 0.25
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsuite.config import RunSettings, Value, parse_text, read_config
from fedsuite.errors import InputError
from simulations.sweep import (
    SWEEP,
    Sweep,
    checked_metric,
    checked_targets,
    checked_vary,
    recorded_sweep,
)
from simulations.systems import load_system
from simulations.variants import VARIANTS, sweep_of


@dataclass(frozen=True)
class TypedSweep:
    """The options of `fedsuite sweep`; what is empty is as the configuration's [sweep] says."""

    vary: Sequence[str] = ()
    metric: str = ""
    targets: Sequence[str] = ()
    lower: bool = False

    def over(
        self, table: Mapping[str, Any], changes: Mapping[str, str], config_file: Path
    ) -> dict[str, Any]:
        """The configuration with this sweep in place of its own, changes being those of --set."""
        swept = dict(table)
        source = str(config_file)
        if VARIANTS in table:
            raise InputError(f"{source}: [variants.NAME] cannot be swept; give a file without them")
        before = sweep_of(table, source)
        if before is None and not self.vary:
            raise InputError(
                f"{source}: nothing to vary; give --vary KEY=VALUE,VALUE or a file with [sweep]"
            )
        if before is None:
            # The configuration's own name is that of its single run.
            swept["name"] = f"{table.get('name') or config_file.stem}-sweep"
        system = changes.get("system") or table.get("system", RunSettings().system)
        cls = load_system(str(system)).config_class
        vary = self._vary(cls) if self.vary else {}
        if before is None:
            metric = checked_metric(self.metric, _at)
            before = Sweep(metric, vary, where="--vary ")
        elif vary:
            before = dataclasses.replace(before, vary=vary, where="--vary ")
        swept[SWEEP] = self.judged(before)
        return swept

    def judged(self, sweep: Sweep) -> Sweep:
        """The same runs with the metric, the targets and the direction that were typed."""
        changes: dict[str, Any] = {"lower": sweep.lower or self.lower}
        if self.metric:
            changes["metric"] = checked_metric(self.metric, _at)
        if self.targets:
            changes["targets"] = checked_targets([_number(t) for t in self.targets], _at)
        return dataclasses.replace(sweep, **changes)

    def rejudged(self, record: Mapping[str, Any], source: str) -> dict[str, Any]:
        """The record of a sweep to resume without its file, judged as typed."""
        sweep = recorded_sweep(record, source)
        if sweep is None:
            raise InputError(f"{source}: not a sweep; continue it with fedsuite run --resume")
        if self.vary:
            raise InputError("--vary: give the CONFIG.toml too, to change the runs of a sweep")
        return {**record, SWEEP: self.judged(sweep).record}

    def _vary(self, cls: type[RunSettings]) -> dict[str, tuple[Value, ...]]:
        vary: dict[str, tuple[Value, ...]] = {}
        for text in self.vary:
            key, equals, values = text.partition("=")
            key = key.strip()
            if not (key and equals and values.strip()):
                raise InputError(f"--vary: expected KEY=VALUE,VALUE, got {text!r}")
            if key in vary:
                raise InputError(f"--vary {key} is given twice; give all its values at once")
            parsed = tuple(parse_text(cls, key, v.strip(), "--vary") for v in values.split(","))
            for value in parsed:
                read_config(cls, {key: value}, "--vary")
            vary[key] = parsed
        return checked_vary(vary, lambda key: f"--vary {key}")


def _at(part: str) -> str:
    return "--target" if part == "targets" else f"--{part}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--target must be a number, got {text!r}") from None
