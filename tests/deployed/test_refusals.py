"""What a deployment refuses, each in one line that says what to do; over TLS, with keys, on real processes."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simulations.deploy.kit.certificates import make_authority
from tests.deployed.site import START_S, Site
from tests.deployed.worlds import World

HOUSES = World(
    {
        "system": "fedvln", "generated-seen-houses": 2, "generated-unseen-houses": 1, "generated-paths-per-house": 4,
        "hidden-size": 16, "word-embedding-size": 8, "action-embedding-size": 4, "angle-feature-size": 4, "max-actions": 4,
        "train-max-actions": 3, "num-rounds": 1, "objective": "imitation", "participation-rate": 1.0, "min-word-count": 1,
        "node-deadline-s": 40.0,
    }
)  # fmt: skip
Change = Callable[[Site, Path], None]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("refusals")
    site = Site(home, HOUSES, HOUSES.toml(home / "run.toml"))
    try:
        site.start_server()
        yield site
    finally:
        site.end()


def last_line(site: Site, name: str) -> str:
    """Of a command that ends by itself, and not well."""
    assert site.processes[name].wait(START_S) in (1, 2)
    lines = site.said(name).strip().splitlines()
    assert not any("Traceback" in line for line in lines), lines
    return lines[-1]


@pytest.mark.slow
@pytest.mark.deployed
def test_a_key_that_is_not_registered(site: Site) -> None:
    site.start_node(name := site.roster.names[0])
    assert "its key is not registered there" in last_line(site, name)


@pytest.mark.slow
@pytest.mark.deployed
def test_an_authority_that_is_not_the_superlinks(site: Site) -> None:
    other = site.home / "other.crt"
    other.write_bytes(make_authority(30).certificate_pem())
    site.start_node(name := site.roster.names[0], "--ca", str(other))
    assert "certificate" in last_line(site, name)


def swapped(site: Site, node: Path) -> None:
    other = site.roster.names[1]
    _replace(node / "node.toml", f'name = "{node.name}"', f'name = "{other}"')


def other_words(site: Site, node: Path) -> None:
    roster = json.loads((node / "roster.json").read_text())
    roster["words"].append("zebra")
    (node / "roster.json").write_text(json.dumps(roster))


def shares_nothing_but_language(site: Site, node: Path) -> None:
    _replace(node / "node.toml", "# most-shared = ", "most-shared = ")


def other_systems(site: Site, node: Path) -> None:
    _replace(node / "node.toml", '# allow-systems = ["fedvln"]', 'allow-systems = ["cdl"]')


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.deployed
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swapped, "but the roster binds that name to key"),
        (other_words, "its roster is not the server's"),
        (shares_nothing_but_language, "this node shares language-encoder at most (most-shared)"),
        (other_systems, "this node allows cdl (allow-systems)"),
    ],
)
def test_a_node_that_is_not_as_the_run_wants_it(site: Site, change: Change, words: str) -> None:
    site.do("deploy", "register", str(site.kit / "server"))
    first = site.node(site.roster.names[0])
    kept = first.with_name("kept")
    shutil.copytree(first, kept, ignore=shutil.ignore_patterns("flower", "cache"))
    change(site, first)
    try:
        for name in site.roster.names:
            site.start_node(name)
        for name in site.roster.names:
            site.wait_for(name, "is connected to")
        site.start_run()
        line = last_line(site, "run")
        print(line)
        assert line.startswith("error: ") and words in line and first.name in line
    finally:
        for name in site.roster.names:
            site.processes[name].terminate()
            site.processes[name].wait(60)
        for file in ("node.toml", "roster.json"):
            shutil.copy(kept / file, first / file)
        shutil.rmtree(kept)
        shutil.rmtree(site.folder.path, ignore_errors=True)
