"""The image: what can be checked of it without a builder, and its health check."""

import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.docker_files import DOCKERFILE, IGNORED, ROOT, in_context, instructions, of

PACKAGES = ("fedsuite", "strategies", "clients", "simulations")
HEALTH = ROOT / "docker" / "health.py"


def context_files() -> list[str]:
    tops = [p for p in sorted(ROOT.iterdir()) if not p.name.startswith(".") and p.name != "shared"]
    files = [p for top in tops for p in ([top] if top.is_file() else top.rglob("*"))]
    return [str(p.relative_to(ROOT)) for p in files if p.is_file() and ".venv" not in p.parts]


@pytest.mark.parametrize(
    ("rules", "path", "seen"),
    [
        ("*\n!a", "a/b/c.py", True),
        ("*\n!a\n**/*.key", "a/b/c.key", False),
        ("*\n!a\n**/*.key", "d.key", False),
        ("*\n!a/b.py", "a/b.py", True),
        ("*\n!a/b.py", "a/c.py", False),
        ("a", "a/b", False),
        ("a", "x/a", True),
        ("*.key", "x/a.key", True),
        ("**/t", "x/y/t/a", False),
        ("# a\n\n", "a", True),
    ],
)
def test_rules_are_read_as_the_builder_reads_them(rules: str, path: str, seen: bool) -> None:
    assert in_context(path, rules) is seen


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".gitignore", ".venv/bin/python", "tests/test_docker.py", "docs/deployment.md",
        "benchmarks/__init__.py", "data/r2r/views.tsv", "runs/x/config.json", "state/a", "cache/b",
        "node.pub", "keys/node_1", "certs/ca.key", "fedsuite/ca.key", "simulations/cdl/ca.pem",
        "clients/node.pub", "fedsuite/__pycache__/a.cpython-311.pyc", "fedsuite/vln/look.ipynb",
        "simulations/.env", "simulations/fedvln/node.toml", "docker/Dockerfile", "roster.json",
        "fedsuite.egg-info/PKG-INFO", "build/lib/a.py", "plain.toml",
    ],
)  # fmt: skip
def test_left_out_of_the_image(path: str) -> None:
    assert not in_context(path)


def test_all_that_the_packages_need_is_in_the_image() -> None:
    kinds = {".py", ".toml", ".json"}
    wanted = {n for n in context_files() if n.startswith(PACKAGES) and Path(n).suffix in kinds}
    assert len(wanted) > 250
    assert sorted(n for n in wanted if not in_context(n) and ".egg-info" not in n) == []


def test_every_copied_source_is_there_and_seen() -> None:
    copies = [line.copied for line in instructions() if line.word == "COPY"]
    seen = [name for name in context_files() if in_context(name)]
    sources = [source for origin, found, _ in copies if not origin for source in found]
    for source in sources:
        assert any(n == source or n.startswith(f"{source}/") for n in seen), source
    unused = [n for n in seen if not n.startswith(tuple(sources))]
    assert unused == []  # nothing in the context that no COPY takes
    assert {origin for origin, _, _ in copies} == {"", "mattersim-source"}


def test_stages() -> None:
    froms = [line.rest for line in instructions() if line.word == "FROM"]
    assert froms == ["${BASE} AS installed", "installed AS mattersim", "installed AS fedsuite"]
    assert [line.word for line in instructions() if line.stage == "fedsuite"] == ["FROM"]


@pytest.mark.parametrize("stage", ["installed", "mattersim"])
def test_nobody_is_root(stage: str) -> None:
    last = of(stage, "USER")[-1].rest
    assert last == "10001:10001"
    made = " ".join(line.rest for line in of("installed", "RUN"))
    assert "groupadd --gid 10001 " in made and "useradd --uid 10001 --gid 10001 " in made


def test_volumes_are_the_users() -> None:
    folders = [Path(v).name for v in of("installed", "VOLUME")[0].exec_form]
    assert folders == ["data", "cache", "state", "runs"]
    made = f"mkdir {' '.join(folders)} && chown fedsuite:fedsuite {' '.join(folders)}"
    assert made in of("installed", "RUN")[-1].rest
    words = [line.word for line in instructions() if line.stage == "installed"]
    assert words.index("VOLUME") > words.index("USER")  # a later RUN in a volume would be lost


def test_no_address_stands_in_it() -> None:
    assert not re.search(r"https?://|\b[\w-]+\.(?:com|org|io|net|dev)/", DOCKERFILE + IGNORED)
    arguments = ["TORCH_INDEX_URL=", "EXTRAS=simulation,hdf5,topology"]
    assert [line.rest for line in of("installed", "ARG")] == arguments
    assert DOCKERFILE.count("index-url") == 1


@pytest.mark.parametrize(
    ("address", "words"),
    [("", []), ("file:///wheels/a b", ["--index-url", "file:///wheels/a b"])],
)
def test_the_index_of_torch_is_the_builders_choice(address: str, words: list[str]) -> None:
    command = next(line.rest for line in of("installed", "RUN") if "torchvision" in line.rest)
    shown = subprocess.run(
        ["sh", "-c", command.replace("pip install", "printf '%s\\n'", 1)],
        env={"TORCH_INDEX_URL": address, "PATH": os.defpath},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    wanted = ["--no-deps", *words, "torch", "torchvision", "-c", "constraints.txt"]
    assert shown.stdout.splitlines() == wanted


def test_what_is_installed_first_is_pinned() -> None:
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert {"torch", "torchvision"} <= set(re.findall(r"^([\w-]+)==", pinned, re.MULTILINE))


@pytest.mark.slow
def test_its_own_packages_compile(tmp_path: Path) -> None:
    (command,) = [line.rest for line in of("installed", "RUN") if "compileall" in line.rest]
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__*__"))
    words = [sys.executable if w == "python" else w for w in command.split()]
    subprocess.run(words, cwd=tmp_path, check=True)
    assert list((tmp_path / "simulations").rglob("server_app.*.pyc"))


def test_commands_that_it_starts_exist() -> None:
    script, _, target = next(x.copied for x in instructions() if "health.py" in x.rest)
    assert (script, of("installed", "HEALTHCHECK")[0].exec_form) == ("", ["python", target])
    assert of("installed", "CMD")[0].exec_form == ["fedsuite", "--help"]
    assert not of("installed", "ENTRYPOINT")  # flower-superlink and flower-supernode run in it too


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Answering) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def health(address: str) -> subprocess.CompletedProcess[str]:
    own = {"FEDSUITE_HEALTH": address, "http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    environment = {**os.environ, **own}
    return subprocess.run(
        [sys.executable, HEALTH], env=environment, capture_output=True, text=True, check=False
    )


def test_who_answers_is_healthy(server: HTTPServer) -> None:
    done = health(f"http://127.0.0.1:{server.server_port}/health")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith(": 200\n")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:{port}/other", "HTTP Error 503"),
        ("https://127.0.0.1:{port}/health", "SSL"),
        ("http://127.0.0.1:9/health", "Connection refused"),
        ("localhost", "unknown url type"),
    ],
)
def test_who_does_not_is_not(server: HTTPServer, address: str, said: str) -> None:
    done = health(address.format(port=server.server_port))
    assert (done.returncode, done.stderr) == (1, "")
    assert said in done.stdout and done.stdout.count("\n") == 1


def test_a_certificate_of_ones_own_is_no_obstacle(
    server: HTTPServer, certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    assert health(f"https://127.0.0.1:{server.server_port}/health").returncode == 0


def test_a_container_that_serves_nothing_is_healthy() -> None:
    done = health("")
    assert (done.returncode, done.stdout) == (0, "FEDSUITE_HEALTH is empty: nothing to ask\n")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "somebody")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    crt, pem = tmp_path / "crt", tmp_path / "key"
    crt.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return crt, pem
