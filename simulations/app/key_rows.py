"""Every key of a system as `fedsuite keys`, `fedsuite init` and the documentation list it."""

from dataclasses import dataclass

from fedsuite.settings.config import Limits, Value, limits_of, to_flat
from simulations.systems import load_system

OR = " | "
BOUNDLESS = 10**9  # bounds of this size only keep numbers finite


@dataclass(frozen=True)
class KeyRow:
    """A key, its default, what it is for, and what it may be ("" where anything goes)."""

    key: str
    default: Value
    help: str
    valid: str

    @property
    def listed(self) -> list[str]:
        """All that it may be, as --set takes it; [] where that cannot be listed."""
        if isinstance(self.default, bool):
            return ["true", "false"]
        return self.valid.split(OR) if OR in self.valid else []

    @property
    def section(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def meaning(self) -> str:
        return f"{self.help} ({self.valid})" if self.valid else self.help


def key_rows(system: str) -> list[KeyRow]:
    """In the order of the settings classes; InputError if there is no such system."""
    cls = load_system(system).config_class
    defaults = to_flat(cls())
    return [
        KeyRow(key, defaults[key], limits.help, _valid(limits))
        for key, limits in limits_of(cls).items()
    ]


def _valid(limits: Limits) -> str:
    if limits.choices:
        return OR.join(map(str, limits.choices))
    bounds = {sign: bound for sign, bound in limits.bounds().items() if abs(bound) < BOUNDLESS}
    return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds.items())
