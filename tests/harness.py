"""Ways to run the toy system: in this process, and through the command line as people do."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fedsuite.arrays import Arrays
from fedsuite.messages.packing import pack
from fedsuite.roster.members import Roster
from fedsuite.runs.folder import RunFolder, folder_of
from fedsuite.runs.versions import Versions
from fedsuite.settings.config import RunSettings, Value, limits_of, read_config, to_flat, with_keys
from fedsuite.storage.files import sha256_of
from fedsuite.storage.progress import silent
from fedsuite.vln.data.instructions import EOS, PAD
from simulations.app.run_config import as_toml
from simulations.client_app import app as client_app
from simulations.commands.cli import main
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import serve
from simulations.systems import load_system, settings_of, to_run_config
from strategies.runtime.packing import PACKED, arrays_of, is_packed
from tests.toy import ToySettings

ROOT = Path(__file__).parents[1]
WAIT_S = 240.0
NOT_LAST = {"RAY_worker_niceness": "0"}  # Ray's own 15 nearly stops workers beside other tests
Settings = TypeVar("Settings", bound=RunSettings)


def full_keys(cls: type, short: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys for short ones, in snake or kebab case; a whole key stands for itself.

    Short: the last part (`hidden-size`; of two keys the one outside [evaluation]), section and last part
    (`data-dir`, `evaluation-batch-size`), or the section whose `kind` is meant (`objective`).
    """
    known, found = limits_of(cls), {}
    for name, value in short.items():
        key = name.replace("_", "-")
        meant = [key] if key in known else [k for k in known if k.rpartition(".")[2] == key]
        meant = [k for k in meant if not k.startswith("evaluation.")] or meant
        meant = meant or [k for k in known if key in (k.replace(".", "-"), k.removesuffix(".kind"))]
        if len(meant) != 1:
            raise KeyError(f"{key} could be {meant} of {cls.__name__}; name one key")
        found[meant[0]] = value
    return found


def changed(settings: Settings, **short: Any) -> Settings:
    """The settings with other values, unchecked; short keys in snake case."""
    return with_keys(settings, full_keys(type(settings), short))


def toml_from(short: Mapping[str, Any], **more: Any) -> str:
    """Lines of a TOML from short keys, unchecked; `system` must be among them."""
    values = {**short, **more}
    keys = full_keys(load_system(values["system"]).config_class, values)
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def config_from(short: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A checked run-config from short keys; `system` must be among them."""
    values = {**short, **more}
    cls = load_system(values["system"]).config_class
    return to_run_config(read_config(cls, full_keys(cls, values)))


def toy_settings(results: Path, **changes: Value) -> ToySettings:
    """Settings of a toy run called "run"; keys in snake case."""
    values = {"results-dir": str(results), "name": "run", "num-rounds": 4, **changes}
    return read_config(ToySettings, full_keys(ToySettings, values))


def run_toy(
    results: Path, wrap: Callable[[Grid], Grid] = lambda grid: grid, **changes: Value
) -> RunFolder:
    """A whole toy run in this process; `wrap` may put something around the grid."""
    settings = toy_settings(results, **changes)
    config = to_run_config(settings)
    grid = InProcessGrid(client_app, settings.num_clients, config)
    with server_identity():
        serve(wrap(grid), config)
    return RunFolder(Path(settings.resume) if settings.resume else results / settings.name)


class Recorder(Grid):
    """A grid that keeps every message, both ways, and passes all on."""

    def __init__(self, inner: Grid) -> None:
        self.inner = inner
        self.sent: list[Message] = []
        self.received: list[Message] = []

    def set_run(self, run: Any) -> None:
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        return self.inner.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        return self.inner.create_message(*args, **kwargs)

    def get_node_ids(self) -> Iterable[int]:
        return self.inner.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        kept = list(messages)
        self.sent += kept
        return self.inner.push_messages(kept)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(self.inner.pull_messages(message_ids))
        self.received += replies
        return replies

    def send_and_receive(self, messages: Iterable[Message], **kwargs: Any) -> Iterable[Message]:
        raise AssertionError("the round loop pushes and pulls by itself")


def arrays_in(message: Message) -> Arrays:
    """The arrays that a message carries, by name; a packed one carries nothing beside them."""
    record = message.content.get("arrays")
    if record is None:
        return {}
    assert isinstance(record, ArrayRecord)
    arrays = arrays_of(record)
    assert not is_packed(record) or record[PACKED].data == pack(arrays)
    return arrays


def prepared(config: Mapping[str, Any]) -> Roster:
    """Checks and preparation of a resolved run-config; who takes part."""
    system, settings = settings_of(config)
    system.validate(settings)
    return system.prepare(settings, silent)


def recorded(config: dict[str, Any]) -> Recorder:
    """A whole run in this process; all its messages."""
    recorder = Recorder(InProcessGrid(client_app, len(prepared(config)), config))
    with server_identity():
        serve(recorder, config)
    return recorder


def results_of(folder: RunFolder) -> dict[str, str]:
    """SHA-256 of all that must be equal between equal runs: history, model, checkpoints, private state."""
    paths = [folder.path / "history.jsonl", folder.model]
    paths += sorted(folder.checkpoints.rglob("*.*")) + sorted(folder.clients.rglob("*.safetensors"))
    return {str(p.relative_to(folder.path)): sha256_of(p.read_bytes()) for p in paths}


def write_toml(folder: Path, stem: str = "toy", **keys: Value) -> Path:
    """A TOML of the toy system."""
    lines = ['system = "tests.toy:SYSTEM"']
    for key, value in keys.items():
        text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
        lines.append(f"{key.replace('_', '-')} = {text}")
    path = folder / f"{stem}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_settings(path: Path, settings: RunSettings) -> Path:
    """A TOML that says every setting."""
    path.write_text(as_toml(to_flat(settings)), encoding="utf-8")
    return path


def start_cli(cwd: Path, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
    """`fedsuite ARGUMENTS` as a child process in `cwd`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0"}
    return subprocess.Popen(
        [sys.executable, "-m", "simulations.commands.cli", *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **popen,
    )


def cli(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`fedsuite ARGUMENTS` to its end."""
    process = start_cli(cwd, *arguments)
    try:
        out, err = process.communicate(timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        raise AssertionError(
            f"fedsuite {arguments} took more than {WAIT_S} s:\n{out}\n{err}"
        ) from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def here(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`fedsuite ARGUMENTS` in this process, which has imported everything: for what is not about processes."""
    command = ["fedsuite", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with chdir(cwd), redirect_stdout(out), redirect_stderr(err), mock.patch("sys.argv", command):
        code = exit_code_of(main)
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def wait_for_checkpoint(process: subprocess.Popen[str], folder: RunFolder, round: int) -> None:
    """Until the run has made this round durable; fails if it ends before."""
    give_up = time.monotonic() + WAIT_S
    while not Versions(folder.checkpoints).path(round).is_file():
        if process.poll() is not None or time.monotonic() > give_up:
            process.kill()
            raise AssertionError(f"no checkpoint of round {round}: {process.communicate()}")
        time.sleep(0.02)


def kill_and_resume(
    folder: Path, config: Mapping[str, Any], round: int, *engine: str, later_s: float = 0.0
) -> RunFolder:
    """The run of a run-config in a child process, killed (-9) after it made `round` durable, then resumed here to its end.

    later_s: how long after that; the run must be in its middle then, or it has not been interrupted.
    """
    settings = settings_of(config)[1]
    write_settings(folder / f"{settings.name}.toml", settings)
    run = folder_of(settings)
    process = start_cli(folder, "run", f"{settings.name}.toml", *engine)
    wait_for_checkpoint(process, run, round)
    time.sleep(later_s)
    process.kill()
    process.communicate()
    assert run.status()["status"] == "running" and not run.model.exists()
    done = here(folder, "run", "--resume", str(run.path), *engine)
    assert done.returncode == 0, done.stderr
    return run


def exit_code_of(main: Callable[[], None]) -> int:
    """Run a command line's entry point in this process; its handlers of signals do not outlive it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def decoded(words: Sequence[str], ids: Iterable[int]) -> str:
    """The words of an encoded instruction up to the first padding or end, without the start."""
    kept = itertools.takewhile(lambda i: i not in (PAD, EOS), ids)
    return " ".join(words[i] for i in kept if i != len(words) - 1)
