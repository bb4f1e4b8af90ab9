"""Real nodes without a SuperLink: contexts of the in-process grid whose node-config names a file of the node's own."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.app import Context, RecordDict

from fedsuite.config import flatten
from fedsuite.run_folder import RunFolder, folder_of
from simulations.client_app import app as client_app
from simulations.engines.inprocess import InProcessGrid, server_identity
from simulations.server_app import serve
from simulations.systems import settings_of

RUN_ID = 77


def write_node(folder: Path, name: str, roster: Path, **keys: Any) -> Path:
    """The file of a node that keeps all below `folder`; keys in snake case, with a section as a table."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    table = {"name": name, "roster": str(roster), "state-dir": "state", **keys}
    lines = [f"{k.replace('_', '-')} = {json.dumps(v)}" for k, v in flatten(table).items()]
    file = folder / "node.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def grid_of(
    config: Mapping[str, Any], files: Sequence[Path], run_id: int = RUN_ID
) -> InProcessGrid:
    """A node for each file, with ids that say nothing of who it is."""
    grid = InProcessGrid(client_app, len(files), config)
    for node_id, file in zip(reversed(list(grid.contexts)), files, strict=True):
        options: dict[str, Any] = {"node": str(file)}
        grid.contexts[node_id] = Context(run_id, node_id, options, RecordDict(), dict(config))
    return grid


def deploy(config: Mapping[str, Any], files: Sequence[Path], run_id: int = RUN_ID) -> RunFolder:
    """A whole run; the server's folder."""
    with server_identity():
        serve(grid_of(config, files, run_id), config)
    return folder_of(settings_of(config)[1])


def write_own_house(data: Path, to: Path, scan: str) -> Path:
    """Of a data folder as tests/conftest.py makes it, what the house `scan` has; its folder."""
    for part in ("connectivity", "annotations"):
        (to / part).mkdir(parents=True)
    shutil.copy(data / "connectivity" / f"{scan}_connectivity.json", to / "connectivity")
    for file in (data / "annotations").iterdir():
        own = [item for item in json.loads(file.read_text()) if item["scan"] == scan]
        (to / "annotations" / file.name).write_text(json.dumps(own))
    lines = (data / "features.tsv").read_text().splitlines(keepends=True)
    (to / "features.tsv").write_text("".join(x for x in lines if x.startswith(f"{scan}\t")))
    return to
