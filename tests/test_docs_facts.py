"""What docs say of the code and of stored scores: folders, keys and defaults; figures come from files of docs/results."""

import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from fedsuite.settings.config import to_flat
from fedsuite.worlds import ENVIRONMENTS
from simulations.systems import BUILT_IN, load_system
from tests.harness import ROOT
from tests.test_docs import PAGES

RESULTS = ROOT / "docs" / "results"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLAIMED = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
OURS = (
    "fedsuite/", "simulations/", "strategies/", "clients/", "tests/", "docs/", "docker/", "notebooks/", "benchmarks/",
)  # fmt: skip
OPEN = re.compile(r"[<>*{$]|\.\.\.")  # stands for any name
DEFAULTS = {name: to_flat(load_system(name).config_class()) for name in BUILT_IN}
KEYS = {key for table in DEFAULTS.values() for key in table}


def quoted(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_keys_that_a_page_names_exist(page: Path) -> None:
    named = {text.split()[0].rstrip(".,;:").partition("::")[0] for text in quoted(page)}
    named -= {*ENVIRONMENTS}  # Gymnasium's names of them look like paths
    paths = {name for name in named if name.startswith(OURS) and not OPEN.search(name)}
    assert {name for name in paths if not (ROOT / name).exists()} == set()
    sections = "|".join({key.partition(".")[0] for key in KEYS if "." in key})
    found = re.compile(rf"(?<![\w./-])(?:{sections})\.[a-z][a-z-]+(?![\w./:])")
    assert {key for text in quoted(page) for key in found.findall(text)} - KEYS == set()


def defaults_told() -> Iterator[tuple[str, str]]:
    """Key and value of "`key` (600)" and of "`key = value`, the default"."""
    told = re.compile(r"`([a-z][a-z.-]+)` \((\d[\d.]*)\)|`([a-z][a-z.-]+) = ([^`]+)`, the default")
    for page in PAGES:
        for groups in told.findall(page.read_text(encoding="utf-8")):
            key, value = groups[:2] if groups[0] else groups[2:]
            if key in KEYS:
                yield key, value.strip('"')


def test_defaults_are_those_of_the_settings() -> None:
    told = set(defaults_told())
    assert len(told) >= 4
    for key, value in told:
        own = {str(table[key]).removesuffix(".0") for table in DEFAULTS.values() if key in table}
        assert value in own, key


def test_the_tree_of_how_it_works_is_the_repositorys() -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    block = page.partition("## Where things are\n")[2].partition("\n[")[0]
    above, told = "", set()
    for line in block.splitlines():
        if not (found := re.match(r"    ( *)((?:\w+/ *)+)(.*)", line)) or len(found[1]) > 10:
            continue
        names = found[2].split()
        above = above if found[1] else names[0]
        told |= {name if not found[1] else above + name for name in names}
        told |= {found[2].split()[0] + n for n in re.findall(r"\b\w+/(?=[ ,;]|$)", found[3]) if not found[1]}  # fmt: skip
    assert {"fedsuite/vln/", "fedsuite/fedrl/", "strategies/runtime/", "tests/golden/"} <= told
    for system in ("vln", "driving", "fedrl"):
        assert (ROOT / "tests" / system).is_dir()  # "by themselves"
    assert {name for name in told if not (ROOT / name).is_dir()} == set()
    for name in ("gridworld", "text2action", "learning", "report"):
        assert f"{name}/" in block and (ROOT / "fedsuite" / "fedrl" / name).is_dir()


def scores(file: str, metric: str, by: str = "seed", **where: str) -> pd.Series:
    """A metric of a line of a stored table, by seed or fold."""
    table = pd.read_csv(RESULTS / file, comment="#")
    for column, value in where.items():
        table = table[table[column] == value]
    return table.set_index(by)[metric].sort_index()


def grid(method: str) -> pd.Series:
    file = "fedrl/table1-8-sum.csv" if "FedRL" in method else "fedrl/table1-8.csv"
    return 100 * scores(file, "success-rate", method=method)


def arguments(method: str) -> pd.Series:
    return 100 * scores("fedrl/table2-win2k-arguments.csv", "f1", "fold", method=method)


def houses(variant: str, file: str = "r2r-parallel.csv") -> pd.Series:
    return 100 * scores(f"fedvln/{file}", "val_unseen.sr", variant=variant)


def drives(variant: str) -> pd.Series:
    """By fold, which has a seed of its own."""
    return scores("cdl/drive-folds.csv", "silo-rmse.mean", variant=variant)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (houses("federated", "r2r-searched.csv"), "47.2 %"), (houses("centralised", "r2r-searched.csv"), "49.7 %"),
        (drives("local"), "0.235"), (drives("ring"), "0.217"), (drives("fedavg"), "0.213"), (drives("constant"), "0.220"),
        (grid("FedRL-1"), "86.6 %"), (grid("FedRL-2"), "94.7 %"), (grid("DQN-alpha"), "72.3 %"),
        (grid("DQN-alpha + noise"), "85.6 %"), (grid("DQN-full"), "92.5 %"), (grid("DQN-full + noise"), "97.3 %"),
        (grid("random"), "73.9 %"), (arguments("FedRL-1"), "89.9"), (arguments("DQN-alpha"), "46.8"),
        (arguments("random"), "15.1"),
    ],
)  # fmt: skip
def test_means_of_the_readme_are_those_of_the_stored_scores(found: pd.Series, told: str) -> None:
    digits = len(told.partition(".")[2].split()[0])
    rounded = 0.5 * 10**-digits + 0.003  # stored rates have four digits
    assert abs(found.mean() - float(told.split(maxsplit=1)[0])) < rounded and told in README
    assert len(found) in (3, 5)


@pytest.mark.parametrize(
    ("first", "second", "told", "digits"),
    [
        (houses("federated", "r2r-searched.csv"), houses("centralised", "r2r-searched.csv"), "-3.9 to -1.0", 1),
        (houses("federated", "searched.csv"), houses("centralised", "searched.csv"), "-3.7 to +0.1", 1),
        (houses("federated", "searched-more.csv"), houses("centralised", "searched.csv"), "-4.6 to +3.6", 1),
        (grid("FedRL-1"), grid("DQN-alpha"), "10.8 to 17.8", 1),
        (grid("FedRL-2"), grid("DQN-alpha + noise"), "5.5 to 12.8", 1),
        (grid("FedRL-1"), grid("DQN-full"), "-8.2 to -3.7", 1),
        (arguments("FedRL-1"), arguments("DQN-alpha"), "41.2 to 44.9", 1),
    ],
)  # fmt: skip
def test_intervals_of_the_claims_are_those_of_the_stored_scores(
    first: pd.Series, second: pd.Series, told: str, digits: int
) -> None:
    apart = (first - second).dropna()
    half = stats.t.ppf(0.975, len(apart) - 1) * stats.sem(apart)
    ends = [apart.mean() - half, apart.mean() + half]
    sign = "+" if ends[0] < 0 else ""
    assert " to ".join(f"{end:{sign}.{digits}f}" for end in ends) == told
    assert told in CLAIMED


def test_rates_that_are_compared_were_searched_alike() -> None:
    """Above the README's table and in both rows of the claims, and nothing is called level by a quotient."""
    for page, rows in ((README, 1), (CLAIMED, 2)):
        assert page.count("searched alike") >= rows
        assert not re.search(r"0\.9[89] (of centralised|on Room)", page)
