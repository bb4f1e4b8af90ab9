"""The commands in the pages on deployments are ones that the installed Flower and the image have."""

import re
import shlex
from importlib.metadata import entry_points
from itertools import pairwise

import click
import pytest
from flwr.cli.app import app as flwr
from typer.main import get_command

from simulations.commands.cli import app as fedsuite
from tests.docker_files import ROOT, instructions, of

PAGES = ("deployment", "docker", "deployment-costs", "operating")
TEXT = "\n".join((ROOT / "docs" / f"{p}.md").read_text(encoding="utf-8") for p in PAGES)
BLOCKS = "\n".join(line[4:] for line in TEXT.splitlines() if line.startswith("    "))
LINES = BLOCKS.replace("\\\n", " ").splitlines()
COMMANDS = [shlex.split(line) for line in LINES if "docker " in line]
BUILDS = [c for c in COMMANDS if c[1] == "build"]
RUNS = [c for c in COMMANDS if c[1] == "run"]


def after(words: list[str], flag: str) -> list[str]:
    return [b for a, b in pairwise(words) if a == flag]


@pytest.mark.slow
@pytest.mark.parametrize("program", ["flower-superlink", "flower-supernode"])
def test_flower_knows_every_flag(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [shlex.split(line.partition(program)[2]) for line in LINES if f"{program} --" in line]
    assert len(given) == 2  # in a container, and without
    words = [word for line in given for word in line]
    (found,) = entry_points(group="console_scripts", name=program)
    monkeypatch.setattr("sys.argv", [program, "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        found.load()()
    told = re.split(r"\n  (?=-)", capsys.readouterr().out)[1:]  # one entry per option
    options = {name: e for e in told for name in re.findall(r"--[a-z-]+", e.splitlines()[0])}
    used = [w for w in words if w.startswith("--")]
    assert len(used) >= 12
    assert [flag for flag in used if flag not in options] == []
    assert [flag for flag in used if "eprecated" in options[flag]] == []


def test_the_newcomers_way_is_ten_commands_at_most() -> None:
    section = TEXT.partition("## On one machine")[2].partition("\n## ")[0]
    block = [line for line in section.splitlines() if line.startswith("    ")]
    assert 5 <= len(block) <= 10


@pytest.mark.parametrize(("program", "count"), [("fedsuite", 26), ("flwr", 2)])
def test_commands_are_as_they_are_typed(program: str, count: int) -> None:
    """Every command that the page starts is parsed, by the program's own parser, and none is run."""
    app = {"fedsuite": fedsuite, "flwr": flwr}[program]
    typed = re.findall(rf"(?:^|do |flwr )({program} [^;&>\n]+)", "\n".join(LINES), re.MULTILINE)
    assert len(typed) == count
    for line in typed:
        command, rest = get_command(app), shlex.split(line, comments=True)[1:]
        while isinstance(command, click.Group):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(line, rest)


def test_builds_name_what_the_dockerfile_has() -> None:
    lines = instructions()
    arguments = {line.rest.partition("=")[0] for line in lines if line.word == "ARG"}
    stages = {line.stage for line in lines}
    assert len(BUILDS) == 3
    for words in BUILDS:
        assert (ROOT / after(words, "-f")[0]).is_file() and words[-1] == "."
        assert {a.partition("=")[0] for a in after(words, "--build-arg")} <= arguments
        assert set(after(words, "--target")) <= stages
        for named in after(words, "--build-context"):
            assert f"COPY --from={named.partition('=')[0]} " in " ".join(
                f"{line.word} {line.rest}" for line in lines
            )


def test_runs_mount_what_the_image_has() -> None:
    volumes = set(of("installed", "VOLUME")[0].exec_form)
    switches = " ".join(line.rest for line in of("installed", "ENV"))
    assert len(RUNS) == 3
    for words in RUNS:
        mounted = [v.split(":")[1] for v in after(words, "-v")]
        assert {m for m in mounted if m.startswith("/app/")} <= volumes
        for switch in after(words, "-e"):
            assert f"{switch.partition('=')[0]}=" in switches.split()
        command = " ".join(words[words.index("fedsuite") :])
        for path in re.findall(r"/(?:certs|srv|app)/[\w./-]+", command):
            assert any(path.startswith(m) for m in mounted), path


def test_the_health_check_asks_the_port_that_is_served() -> None:
    for words in RUNS[1:]:
        (switch,) = after(words, "-e")
        (port,) = after(words, "--port")
        tls = "--ssl-certfile" in words
        assert switch == f"FEDSUITE_HEALTH=http{'s' * tls}://127.0.0.1:{port}/health"
