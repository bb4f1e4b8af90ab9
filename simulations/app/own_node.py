"""A node's own file (fedsuite.roster.node) goes before the server's run-config: what it takes part in, all its paths."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from fedsuite.errors import InputError
from fedsuite.roster.node import ALLOWED, NodeSettings, own_paths, read_node
from fedsuite.runs.folder import checked_key
from fedsuite.settings.config import RunSettings, Value, value_of, with_keys
from fedsuite.settings.values import shown
from fedsuite.storage.files import full_path, make_private, telling, write_atomically

FILE = "node"  # key of the node-config
RUNS = "flower-runs"  # in state-dir: a file for each run of Flower's, with the key of its state
_BESIDE = {FILE, "resident"}
_GIVEN = ("data.dir", "data.features", "data.word-vectors")
C = TypeVar("C", bound=RunSettings)


def own_node(options: Mapping[str, Any]) -> NodeSettings | None:
    """The file that a node-config names; None if it names none. InputError for a bad file, and for keys beside it."""
    if FILE not in options:
        return None
    if surplus := sorted(options.keys() - _BESIDE):
        raise InputError(
            f"node-config {surplus[0]}: stands beside {FILE}, whose file says who this is; leave it out"
        )
    file = full_path(str(options[FILE]), f"node-config {FILE}")
    return _read(file, file.stat().st_mtime_ns if file.is_file() else 0)


@lru_cache(maxsize=64)
def _read(file: Path, stamp: int) -> NodeSettings:
    """Read once per process; `stamp` is when it was written."""
    return read_node(file)


def check_system(node: NodeSettings, run_config: Mapping[str, Any]) -> None:
    """Before anything of a system is imported: InputError if this node takes no part in it."""
    name = str(run_config.get("system", RunSettings().system))
    if name not in node.allowed:
        raise InputError(
            f"system: the run wants {shown(name)}, this node allows {', '.join(node.allowed)} ({ALLOWED})"
        )


def begin_run(node: NodeSettings, run_id: int, key: object) -> None:
    """Keep what this node has of Flower's run `run_id` under the server's key of it, which outlives a resume."""
    if key is None:
        raise InputError(
            f"node {node.name}: the server says no run-key, as one that is given a roster does; set roster in the run-config"
        )
    file = _key_file(node, run_id)
    with telling(file.parent):
        make_private(file.parent)
    write_atomically(file, checked_key(key, "the server's run-key").encode(), private=True)


def state_of(node: NodeSettings, run_id: int) -> Path:
    """The folder of what this node has of Flower's run `run_id`; InputError if that has not begun here."""
    file = _key_file(node, run_id)
    if not file.is_file():
        raise InputError(
            f"{file}: no such file, so this node does not know where its state of the run lies; it was moved, or the "
            "server never asked who this is; put it back, or resume the run"
        )
    with telling(file):
        return Path(node.state_dir) / checked_key(file.read_text(errors="replace"), str(file))


def _key_file(node: NodeSettings, run_id: int) -> Path:
    return Path(node.state_dir) / RUNS / str(run_id)


def as_own(config: C, node: NodeSettings, folder: Path) -> C:
    """The run's settings as they hold here; folder: where this node keeps what it has of the run.

    Paths, device and threads are the node's; InputError where the run reads data that the node's file does not name.
    """
    paths = own_paths(node, type(config))
    for key in _GIVEN:
        if key in paths and value_of(config, key) and not paths[key]:
            raise InputError(
                f"{key}: the run wants {shown(value_of(config, key))} read, this node's file names nothing; set {key} "
                "there to where it lies here"
            )
    own: dict[str, Value] = {**paths, "results-dir": str(folder)}
    own |= {"device": node.device} if node.device else {}
    own |= {"client-threads": node.threads} if node.threads else {}
    return with_keys(config, own)
