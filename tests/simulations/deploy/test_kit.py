"""The folder that `fedsuite deploy init` writes: complete, private where it must be, and nobody's work is lost."""

import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from flwr.cli.flower_config import read_superlink_connection

from fedsuite.errors import InputError
from fedsuite.roster.members import read_roster
from fedsuite.roster.node import NodeSettings, read_node
from fedsuite.roster.node_report import disagreement, fingerprint_of
from fedsuite.settings.config import limits_of
from simulations.commands.roster import part_of_node
from simulations.deploy.kit.address import Address, read_address
from simulations.deploy.kit.bundle import hand_out, make_kit, node_text
from simulations.deploy.kit.server_folder import placed, read_server
from tests.deployment import NAMES, new_kit, small_roster

Call = Callable[..., tuple[int, str, str]]


def test_what_is_in_it(tmp_path: Path, call: Call) -> None:
    code, out, err = call(
        *(
            "deploy",
            "init",
            "kit",
            "--nodes",
            "oak, elm,ash",
            "--host",
            "10.0.0.7",
            "--port",
            "8443",
        ),
        engine=False,
    )
    assert (code, err) == (0, ""), err
    assert "ca: signs certificates; keep it" in out
    kit = tmp_path / "kit"
    found = {str(p.relative_to(kit)) for p in kit.rglob("*") if p.is_file()}
    of_node = {"node.toml", "node.key", "node.key.pub", "ca.crt"}
    assert found == {
        *("ca/ca.key", "ca/ca.crt", "compose.yml"),
        *("systemd/fedsuite-superlink.service", "systemd/fedsuite-node@.service"),
        *("server/ca.crt", "server/server.pem", "server/server.key", "server/server.toml"),
        *("server/flwr/config.toml", *(f"server/keys/{name}.pub" for name in NAMES)),
        *(f"nodes/{name}/{file}" for name in NAMES for file in of_node),
    }
    assert [p.name for p in tmp_path.iterdir()] == ["kit"]
    keys = {p for p in kit.rglob("*.key") if p.is_file()}
    of_nodes = [p for p in (kit / "nodes").glob("*/**/") if p != kit / "nodes"]
    private = keys | {kit / "ca"} | set(kit.rglob("node.toml")) | set(of_nodes)
    assert len(keys) == 5 and len(of_nodes) == 4 * len(NAMES)
    for path in kit.rglob("*"):
        assert (stat.S_IMODE(path.stat().st_mode) & 0o077 == 0) == (path in private), path
    assert len({file.read_bytes() for file in keys}) == 5
    server = read_server(kit / "server")
    assert (server.listen, server.port, str(server.address)) == ("0.0.0.0", 8443, "127.0.0.1:8443")
    assert [key.stem for key in server.keys] == sorted(NAMES) and placed(server) == ""


def test_flower_reads_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = new_kit(tmp_path / "kit")
    monkeypatch.setenv("FLWR_HOME", str(kit / "server" / "flwr"))
    found = read_superlink_connection("fedsuite")
    assert (found.address, found.insecure) == ("127.0.0.1:9092", False)
    assert found.root_certificates == str(kit / "server" / "ca.crt")
    moved = read_server(kit.rename(tmp_path / "moved") / "server")
    monkeypatch.setenv("FLWR_HOME", str(moved.home))
    own = str(moved.authority)
    assert f"{kit}/server/ca.crt, which cannot be read here, and is {own} now" in placed(moved)
    assert read_superlink_connection("fedsuite").root_certificates == own
    assert placed(moved) == ""
    # Another authority that is there may be meant.
    other, config = tmp_path / "other.crt", moved.home / "config.toml"
    other.touch()
    text = config.read_text().replace(own, str(other))
    config.write_text(text)
    assert f"root-certificates is {other}; for `flwr run`" in placed(moved)
    assert config.read_text() == text


@pytest.mark.parametrize(
    "connection",
    ['"a\\u0000b"', '"caf\xe9"', "[" * 10000, '""\n[superlink.fedsuite]\n', '{ "a" = 1 }'],
)
def test_a_connection_that_cannot_be_read_is_told_and_left_alone(
    tmp_path: Path, connection: str
) -> None:
    server = read_server(new_kit(tmp_path / "kit") / "server")
    config = server.home / "config.toml"
    text = f"[superlink.fedsuite]\nroot-certificates = {connection}\n".encode("latin-1")
    config.write_bytes(text)
    assert placed(server).startswith(f"{config}: ")
    assert config.read_bytes() == text


@pytest.mark.parametrize(
    ("host", "listen", "local"),
    [
        ("localhost", "127.0.0.1", "127.0.0.1:9092"),
        ("fed.example", "0.0.0.0", "127.0.0.1:9092"),
        ("fd00::7", "::", "[::1]:9092"),
    ],
)
def test_where_it_listens(tmp_path: Path, host: str, listen: str, local: str) -> None:
    make_kit(tmp_path / "kit", ["oak"], Address(host, 9092))
    server = read_server(tmp_path / "kit" / "server")
    assert (server.listen, str(server.address)) == (listen, local)
    assert local in (server.home / "config.toml").read_text()


@pytest.mark.parametrize("text", ["[fd00::7]:9092", "fed.example:9092", "10.0.0.7:9092"])
def test_an_address_is_read_as_it_is_written(text: str) -> None:
    assert str(read_address(text, "test")) == text


def test_a_node_reads_its_file(tmp_path: Path) -> None:
    kit = new_kit(tmp_path / "kit")
    node = read_node(kit / "nodes" / "oak" / "node.toml")
    assert (node.name, node.superlink) == ("oak", "localhost:9092")
    assert node.data.cache_dir == str(kit / "nodes" / "oak" / "cache") and node.data.dir == ""
    assert node.roster == str(kit / "nodes" / "oak" / "roster.json")


def test_every_key_stands_in_the_file_and_works(tmp_path: Path) -> None:
    folder = new_kit(tmp_path / "kit") / "nodes" / "oak"
    lines = node_text("oak", Address("localhost", 1)).splitlines()
    text = "\n".join(x.removeprefix("# ") if " = " in x else x for x in lines)
    for name in ("features.tsv", "vectors.txt"):
        (folder / "data" / name).write_text("")
    (folder / "node.toml").write_text(text)
    node = read_node(folder / "node.toml")
    assert node.most_shared == "language-encoder" and node.data.word_vectors.endswith("vectors.txt")
    table = tomllib.loads(text)
    keys = {*table, *(f"data.{key}" for key in table["data"])} - {"data"}
    assert keys == set(limits_of(NodeSettings))


@pytest.mark.parametrize("there", ["a folder", "a file"])
def test_what_is_there_is_left_alone(tmp_path: Path, call: Call, there: str) -> None:
    kit = tmp_path / "kit"
    mine = kit / "mine" if there == "a folder" else kit
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    code, _, err = call(
        "deploy", "init", "kit", "--nodes", "oak", "--host", "localhost", engine=False
    )
    assert code == 2 and "kit: is there already, nothing in it was touched" in err
    assert mine.read_text() == "mine" and [p for p in kit.rglob("*")] == [mine] * kit.is_dir()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("--nodes ../oak --host localhost", "--nodes: ../oak: a name must be letters"),
        ("--nodes oak,,elm --host localhost", "--nodes: : a name must be letters"),
        ("--nodes oak,elm,oak --host localhost", "--nodes: oak stands there twice"),
        (
            "--nodes oak --host https://fed.example",
            "--host: expected a host's name or its IP address",
        ),
        ("--nodes oak --host 10.0.0", "--host: expected a host's name or its IP address"),
        ("--nodes oak --host a --port 70000", "--port: expected a port from 1 to 65535, got 70000"),
        ("--host localhost", "give --nodes, or --run"),
        ("--nodes oak --run run.toml --host localhost", "give --nodes, or --run"),
        ("--run none.toml --host localhost", "none.toml: no such file"),
    ],
)
def test_bad_input_leaves_nothing(tmp_path: Path, call: Call, options: str, complaint: str) -> None:
    code, _, err = call("deploy", "init", "kit", *options.split(), engine=False)
    assert code == 2 and complaint in err and err.count("\n") == 1, err
    assert list(tmp_path.iterdir()) == []


def test_the_roster_is_handed_out_with_the_keys(tmp_path: Path) -> None:
    kit = new_kit(tmp_path / "kit")
    roster = read_roster(kit / "server" / "roster.json")
    assert roster.digest == small_roster().digest and roster.names == list(NAMES)
    for member in roster.members:
        own = kit / "nodes" / member.name
        assert member.key == fingerprint_of(own / "node.key.pub")
        assert read_roster(own / "roster.json").digest == roster.digest
    with pytest.raises(InputError, match=r"roster.json: is there already, nothing was touched"):
        hand_out(kit, small_roster())


def test_a_roster_of_others_is_not_handed_out(tmp_path: Path) -> None:
    make_kit(tmp_path / "kit", ["oak", "elm"], Address("localhost", 9092))
    with pytest.raises(InputError, match="ash is in the roster and not in nodes/"):
        hand_out(tmp_path / "kit", small_roster())
    assert not list((tmp_path / "kit").rglob("roster.json"))


RUNS = {
    "fedvln": (
        'system = "fedvln"\n[data]\ngenerated-seen-houses = 1\ngenerated-unseen-houses = 1\n'
        "generated-paths-per-house = 4\ngenerated-feature-size = 8\nmin-word-count = 1\n"
    ),
    "cdl": (
        'system = "cdl"\n[data]\ntrain-frames = 20\ntest-frames = 10\nimage-size = 32\n'
        '[federation]\nunderlay = "gaia"\n'
    ),
    "fedrl": 'system = "fedrl"\n[data]\nmaps = 40\n[world]\ngrid-size = 5\n',
}


@pytest.mark.parametrize("system", RUNS)
def test_generated_data_name_the_nodes(tmp_path: Path, call: Call, system: str) -> None:
    """Each node, which generates the data for itself, says what the roster says of it."""
    (tmp_path / "run.toml").write_text(RUNS[system])
    done = call("deploy", "init", "kit", "--run", "run.toml", "--host", "localhost", engine=False)
    assert done[0] == 0, done
    roster = read_roster(tmp_path / "kit" / "server" / "roster.json")
    assert len(roster) == {"fedvln": 2, "cdl": 11, "fedrl": 2}[system]
    for name in (roster.names[0], roster.names[-1]):
        node = tmp_path / "kit" / "nodes" / name / "node.toml"
        assert disagreement(part_of_node(node, tmp_path / "run.toml", []), roster) == ""


def test_the_roster_of_a_folder_whose_nodes_have_their_data(tmp_path: Path, call: Call) -> None:
    (tmp_path / "run.toml").write_text(RUNS["fedrl"])
    make_kit(tmp_path / "kit", ["beta", "alpha"], Address("localhost", 9092))
    done = call("deploy", "roster", "kit", "run.toml", engine=False)
    assert done[0] == 0, done
    kit = tmp_path / "kit"
    members = read_roster(kit / "nodes" / "beta" / "roster.json").members
    assert [m.name for m in members] == ["alpha", "beta"]
    for member in members:
        assert member.key == fingerprint_of(kit / "nodes" / member.name / "node.key.pub")


def test_data_of_ones_own_are_not_generated(tmp_path: Path, call: Call) -> None:
    (tmp_path / "drives").mkdir()
    (tmp_path / "run.toml").write_text('system = "cdl"\n[data]\ndir = "drives"\n')
    code, _, err = call(
        "deploy", "init", "kit", "--run", "run.toml", "--host", "localhost", engine=False
    )
    assert (
        code == 2
        and "run.toml: data.dir is set, so each node has data of its own; give --nodes" in err
    )
    assert not (tmp_path / "kit").exists()


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("secure-sum = true", "a round would have 1 members, expected at least"),
        ("merge = 'trimmed-mean'\ntolerated = 1", "federation.merge"),
    ],
)
def test_a_run_that_its_strategy_refuses_gets_no_kit(
    tmp_path: Path, call: Call, rule: str, complaint: str
) -> None:
    """The settings are sound, and the one house that trains is too few for them."""
    federation = f"[federation]\naggregation = 'parallel'\n{rule}\n"
    (tmp_path / "run.toml").write_text(RUNS["fedvln"] + federation)
    code, _, err = call(
        "deploy", "init", "kit", "--run", "run.toml", "--host", "localhost", engine=False
    )
    assert code == 2 and complaint in err and not (tmp_path / "kit").exists(), err


def test_a_file_of_somebody_elses_that_is_called_like_the_lock_stays(tmp_path: Path) -> None:
    (tmp_path / ".kit.lock").write_text("three years of work")
    make_kit(tmp_path / "kit", ["oak"], Address("localhost", 9092))
    assert (tmp_path / ".kit.lock").read_text() == "three years of work"
