"""compose.yml and the systemd units: what can be checked without Docker and without systemd's daemon."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from simulations.commands.cli import app
from simulations.deploy.kit.bundle import make_kit
from simulations.deploy.kit.units import IMAGE_USER, compose_text, node_unit, superlink_unit
from tests.deployment import NAMES, Address
from tests.docker_files import of

NAME = re.compile(r"[a-zA-Z0-9._-]+")
UNITS = {"fedsuite-superlink.service": superlink_unit(), "fedsuite-node@.service": node_unit()}
# Keys of a service that ours use, as the Compose specification types them.
TYPES = {
    "image": str, "init": bool, "restart": str, "stop_grace_period": str, "command": list, "ports": list,
    "volumes": list, "environment": dict, "depends_on": list,
}  # fmt: skip


@pytest.fixture
def services() -> dict[str, Any]:
    table = yaml.safe_load(compose_text(NAMES, 8443))
    assert list(table) == ["services"]
    found: dict[str, Any] = table["services"]
    return found


def known(command: list[str]) -> Result:
    """The help of a `fedsuite` command, which must have every option given."""
    options = [w for w in command if w.startswith("--")]
    words = command[1:3]
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and all(option in shown.output for option in options)
    return shown


def test_services_are_what_compose_takes(services: dict[str, Any]) -> None:
    assert list(services) == ["superlink", "node-oak", "node-elm", "node-ash"]
    for name, service in services.items():
        assert NAME.fullmatch(name)
        assert all(isinstance(value, TYPES[key]) for key, value in service.items())
        assert all(isinstance(word, str) for word in service["command"])
        assert service["restart"] == "unless-stopped" and service["init"] is True
        assert set(service.get("depends_on", [])) <= set(services)


def test_services_go_with_the_image_and_the_folder(
    services: dict[str, Any], tmp_path: Path
) -> None:
    make_kit(tmp_path / "kit", NAMES, Address("fed.example", 8443))
    switches = " ".join(line.rest for line in of("installed", "ENV"))
    assert of("installed", "USER")[-1].rest == f"{IMAGE_USER}:{IMAGE_USER}"
    for service in services.values():
        known(service["command"])
        (volume,) = service["volumes"]
        source, target = volume.split(":")
        assert (tmp_path / "kit" / source).is_dir() and source.startswith("./")
        (file,) = [Path(w) for w in service["command"] if w.startswith("/srv/")]
        assert (tmp_path / "kit" / source / file.relative_to(target)).exists()
        assert [f"{key}=" in switches for key in service["environment"]] == [True]


def test_ports_and_health_are_those_that_are_served(services: dict[str, Any]) -> None:
    superlink = services.pop("superlink")
    assert superlink["ports"] == ["8443:8443"]
    assert superlink["environment"]["FEDSUITE_HEALTH"] == "https://127.0.0.1:8443/health"
    for service in services.values():
        words = service["command"]
        port = words[words.index("--port") + 1]
        assert service["environment"]["FEDSUITE_HEALTH"] == f"http://127.0.0.1:{port}/health"
        assert words[words.index("--superlink") + 1] == "superlink:8443"
        assert "ports" not in service


@pytest.mark.parametrize("name", UNITS)
def test_units_restart_and_run_as_somebody(name: str) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNITS[name])
    assert unit.sections() == ["Unit", "Service", "Install"]
    service = unit["Service"]
    assert (
        service["Restart"] == "always" and int(service["RestartSec"]) <= 10
    )  # the command waits by itself
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["User"] == "fedsuite" and service["SuccessExitStatus"] == "130"
    words = shlex.split(service["ExecStart"])
    known(words)
    assert words[0] == "/opt/fedsuite/bin/fedsuite"
    assert (
        words[3].startswith(service["WorkingDirectory"])
        and service["ReadWritePaths"] == service["WorkingDirectory"]
    )


@pytest.mark.parametrize("name", UNITS)
def test_no_place_of_this_machine_stands_in_a_unit(name: str) -> None:
    head, _, body = UNITS[name].partition("[Unit]")
    assert head.startswith("# FILL IN") and all(line.startswith("#") for line in head.splitlines())
    absolute = set(re.findall(r"(?<![\w%])/[\w./%@-]+", body))
    assert {path.split("/")[1] + "/" + path.split("/")[2] for path in absolute} == {
        "opt/fedsuite",
        "srv/fedsuite",
    }
    assert "/opt/fedsuite" in head and "/srv/fedsuite" in head


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    program = tmp_path / "fedsuite"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for name, text in UNITS.items():
        file = tmp_path / name.replace("@", "@oak")
        file.write_text(text.replace("/opt/fedsuite/bin/fedsuite", str(program)))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(file)],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert name.partition("@")[0] not in done.stderr, done.stderr
