"""One set of written runs and their reports, which all tests of reports look at."""

from types import SimpleNamespace

import pytest

from simulations.results.report import make_report
from tests.written_runs import (
    HOSTILE,
    houses_run,
    parties_run,
    silos_run,
    write_experiment,
)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """houses: two variants by two seeds, of which one run was interrupted; hostile: a run with hostile names; parties,
    silos.
    """
    root = tmp_path_factory.mktemp("runs")
    houses = root / "houses"
    alone = {"federation.method": "local-only"}
    for seed, score in ((0, 0.4), (1, 0.5)):
        houses_run(houses / "federated" / f"seed-{seed}", seed, score)
        status = "completed" if seed == 0 else "running"
        houses_run(houses / "local" / f"seed-{seed}", seed, 0.2, settings=alone, status=status)
    write_experiment(houses, [f"{v}/seed-{s}" for v in ("federated", "local") for s in (0, 1)])
    parties = root / "parties"
    for fold, success in ((0, 0.6), (1, 0.8)):
        parties_run(parties / f"fedrl-fold{fold}", "fedrl", fold, success)
    parties_run(parties / "dqn-alpha", "dqn-alpha", 0, 0.3)
    write_experiment(parties, ["fedrl-fold0", "fedrl-fold1", "dqn-alpha"])
    hostile = houses_run(root / "hostile", 0, 0.3, HOSTILE)
    failed = {"status": "failed", "error": f"lost {HOSTILE[0]}"}
    houses_run(root / "failed", 0, 0.3, **failed)
    return SimpleNamespace(
        root=root, houses=houses, parties=parties, silos=silos_run(root / "silos"), hostile=hostile,
        failed=root / "failed",
    )  # fmt: skip


@pytest.fixture(scope="session")
def houses(written):
    return make_report([str(written.houses)])


@pytest.fixture(scope="session")
def hostile(written):
    """Of runs with hostile names and a hostile error."""
    return make_report([str(written.hostile), str(written.failed)])


def table_named(report, start: str, part: int = 0) -> list[dict[str, str]]:
    """Rows of the table whose title starts so."""
    found = [t for s in report.parts[part].sections for t in s.tables if t.title.startswith(start)]
    assert len(found) == 1, [t.title for s in report.parts[part].sections for t in s.tables]
    return [dict(zip(found[0].columns, row, strict=True)) for row in found[0].rows]
