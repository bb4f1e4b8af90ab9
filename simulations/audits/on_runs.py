"""An audit from a run's folder to its audit.csv: which attacks are to be made, and what is kept of them.

The file is written anew after every attack, so that one that is stopped loses no finding of those before it; a later audit
with the same seed and settings goes on with the attacks that are missing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedsuite.errors import InputError, suggestion
from fedsuite.history import load_run
from fedsuite.privacy.attacks.attack_settings import AttackSettings, changed
from fedsuite.privacy.findings import AUDIT, Row, read_rows, write_rows
from fedsuite.reports.page.audits import HOW, audit_rows
from fedsuite.reports.tables import markdown_table
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.roster.same_data import differences
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import read_config
from fedsuite.settings.values import shown
from fedsuite.storage.files import as_typed, write_atomically
from fedsuite.storage.progress import Progress
from simulations.audits.accounted import beside_ledger
from simulations.audits.audited import Attack, Audited
from simulations.audits.cores import CoreAttack
from simulations.client_app import torch_threads
from simulations.systems import load_system

WRITTEN = "audit.md"
QUICK = 4  # shadow models


@dataclass(frozen=True)
class Request:
    """What was asked for; wanted: names of attacks, () for all that the system has; typed: settings of attacks."""

    wanted: tuple[str, ...] = ()
    attack: AttackSettings = field(default_factory=AttackSettings)
    seed: int = 0
    quick: bool = False
    overwrite: bool = False
    typed: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """Settings of attacks other than the defaults, as a row has them."""
        return " ".join(f"{key}={value}" for key, value in changed(self.attack).items())


def audit_run(folder: Path, request: Request, progress: Progress) -> list[Row]:
    """All rows of the run's audit, old and new; InputError where it cannot be audited so."""
    run = RunFolder(folder)
    if not run.is_completed():
        raise InputError(
            f"{folder}: has not completed; continue it first with fedsuite run --resume {as_typed(folder)}"
        )
    stored = read_stored_config(run)
    system = load_system(str(stored.get("system", "")))
    if system.audit is None:
        raise InputError(
            f"{folder}: a run of system {system.name}, which names no attacks; give a run of another system"
        )
    config = read_config(system.config_class, stored, str(run.config))
    attacks = _chosen(system.audit(config), request.wanted)
    for key in request.typed:
        if (name := key.partition(".")[0]) not in attacks:
            raise InputError(f"--set {key}: no attack {name} is made here; leave that out")
        if isinstance(attacks[name], CoreAttack):
            raise InputError(
                f"--set {key}: {name} of {system.name} has no settings; leave that out"
            )
    with run.locked():
        kept, missing = _kept(run.path / AUDIT, list(attacks), request)
        if not missing:
            progress(f"{folder.name}: {', '.join(attacks)} found in {AUDIT}")
            return kept
        roster = system.prepare(config, progress)
        if found := next(differences(read_roster(run.path / ROSTER), roster), ""):
            raise InputError(
                f"{folder}: the data are not those that the run was made with: {found}; put the old data back"
            )
        given = request.attack, request.seed, request.quick, progress
        audited = Audited(system, config, run, roster, *given)
        summed = bool(stored.get("federation.secure-sum", False))
        beside = beside_ledger(run, str(stored.get("privacy.unit", "none")), summed)
        for number, name in enumerate(missing, 1):
            progress(f"{folder.name}: {name} ({number} of {len(missing)})")
            head = request.seed, audited.round, request.quick, request.told
            with torch_threads(config.client_threads):
                kept += [Row(beside(finding), *head) for finding in attacks[name](audited)]
            _write(run, kept)
    return kept


def _chosen(there: "Mapping[str, Attack]", wanted: Sequence[str]) -> "dict[str, Attack]":
    for name in wanted:
        if name not in there:
            raise InputError(f"--attacks: no attack {shown(name)}; {suggestion(name, [*there])}")
    return {name: attack for name, attack in there.items() if name in wanted or not wanted}


def _kept(file: Path, names: list[str], request: Request) -> tuple[list[Row], list[str]]:
    """Rows that stay, and the attacks that are still to be made."""
    rows = read_rows(file) if file.exists() else []
    if request.overwrite:
        return [row for row in rows if row.finding.attack not in names], names
    head = request.seed, request.quick, request.told
    for row in rows:
        own = row.seed, row.quick, row.changed
        if row.finding.attack in names and own != head:
            told = (
                f"seed {row.seed}{', --quick' * row.quick}{', ' * bool(row.changed)}{row.changed}"
            )
            raise InputError(
                f"{file}: has {row.finding.attack} with {told}; ask for the same, or replace it with --overwrite"
            )
    there = {row.finding.attack for row in rows}
    return rows, [name for name in names if name not in there]


def _write(run: RunFolder, rows: Sequence[Row]) -> None:
    """audit.csv, and a table beside results.md."""
    write_rows(run.path / AUDIT, rows)
    shown = audit_rows(load_run(run.path).audit)
    table = markdown_table(shown) if shown else "Every attack was left out.\n"
    text = f"# What {run.path.name} tells\n\n{HOW}\n\n{table}"
    write_atomically(run.path / WRITTEN, text.encode())


def refuted(rows: Sequence[Row]) -> str:
    """What is wrong with the run's accounting, in one line; "" where no bound is above it."""
    for row in rows:
        finding = row.finding
        if finding.refutes:
            return (
                f"{finding.attack}: epsilon is at least {finding.value:.3g}, but the ledger accounts {finding.epsilon:.3g} "
                f"per {finding.unit}; the noise or its accounting is wrong"
            )
    return ""


def request_of(
    settings: AttackSettings, attacks: str, seed: int, quick: bool, overwrite: bool
) -> Request:
    """From the command line."""
    wanted = tuple(name.strip() for name in attacks.split(",") if name.strip())
    typed = tuple(changed(settings))
    if quick:
        shadows = settings.membership.shadows
        if shadows > QUICK and "membership.shadows" in typed:
            raise InputError(
                f"--quick: {QUICK} shadow models, not {shadows}; leave one of them out"
            )
        fewer = replace(settings.membership, shadows=min(QUICK, shadows))
        settings = replace(settings, membership=fewer)
    return Request(wanted, settings, seed, quick, overwrite, typed)
