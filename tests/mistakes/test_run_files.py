"""Checkpoints, private states and run files that were damaged: resuming says which and how to go on, or goes on rightly."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsuite.history import HISTORY, TIMINGS
from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Checkpoints
from tests.harness import results_of, run_toy, write_toml
from tests.mistakes.refusing import Call, said

ROUNDS, MORE = 4, 6
Damage = Callable[[Path], object]


def _cut(share: float) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def _flipped(seed: int, first: float = 0.0, last: float = 1.0) -> Damage:
    """One bit, somewhere in this part of the file."""

    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        at = int(rng_for(seed, "flip").uniform(first, last) * len(data))
        data[at] ^= 1 << int(rng_for(seed, "bit").integers(8))
        path.write_bytes(data)

    return flip


def _headed(header: bytes, length: int | None = None) -> Damage:
    """A safetensors file that begins like this."""
    size = (len(header) if length is None else length).to_bytes(8, "little")
    return lambda path: path.write_bytes(size + header + b"\0" * 64)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


ABOUT = json.dumps({"__metadata__": {"about": "[" * 3000}})
DAMAGES: dict[str, Damage] = {
    **{f"cut at {share}": _cut(share) for share in (0, 0.01, 0.1, 0.3, 0.6, 0.9, 0.999)},
    **{f"flip {seed} in the length": _flipped(seed, 0, 0.005) for seed in range(4)},
    **{f"flip {seed} in the header": _flipped(seed, 0.02, 0.5) for seed in range(10, 22)},
    **{f"flip {seed} anywhere": _flipped(seed) for seed in range(30, 42)},
    "flip in the numbers": _flipped(50, 0.98),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "text": lambda path: path.write_text("hello"),
    "a zip": lambda path: np.savez(path.open("wb"), w=np.zeros(3)),
    "a header without end": _headed(b"{}", 2**62),
    "a header that is no json": _headed(b"hello   "),
    "a header without metadata": _headed(b"{}      "),
    "nested metadata": _headed(ABOUT.encode()),
    "a lying shape": _headed(b'{"w":{"dtype":"F32","shape":[99999999999],"data_offsets":[0,64]}}'),
    "a folder": _folder,
    "a link to itself": _link_to_itself,
}  # fmt: skip
SOME = list(DAMAGES)[::4]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of four rounds, to be copied."""
    root = tmp_path_factory.mktemp("begun")
    run_toy(root / "runs", num_rounds=ROUNDS)
    return root


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return results_of(run_toy(tmp_path_factory.mktemp("whole"), num_rounds=MORE))


@pytest.fixture
def run(begun: Path, tmp_path: Path) -> RunFolder:
    """A copy of the begun run, to be damaged."""
    shutil.copytree(begun / "runs", tmp_path / "runs")
    write_toml(tmp_path, name="run", num_rounds=MORE)
    return RunFolder(tmp_path / "runs" / "run")


def resumed(call: Call) -> tuple[int, str, str]:
    return call("run", "toy.toml", "--resume", "run")


def kept_names(run: RunFolder) -> set[str]:
    """Whatever a run cannot do without."""
    return {p.name for p in run.checkpoints.iterdir()} | {HISTORY}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_checkpoint(
    call: Call, run: RunFolder, whole: dict[str, str], damage: str
) -> None:
    """Refused; moved away as the line says, the run goes on from the one before it to the same bytes."""
    path = Checkpoints(run.checkpoints).path(ROUNDS)
    before = kept_names(run)
    DAMAGES[damage](path)
    line = said(resumed(call))
    cure = f"put it back from a copy, or move it away to resume from round {ROUNDS - 1}"
    assert f"{path}: damaged checkpoint, " in line and cure in line
    assert kept_names(run) == before and "overwrite" not in line
    path.rename(run.path / "away")
    assert resumed(call)[0] == 0
    assert results_of(run) == whole


@pytest.mark.parametrize("damage", [*SOME, "a folder"])
def test_a_damaged_older_checkpoint_is_not_asked_for(
    call: Call, run: RunFolder, whole: dict[str, str], damage: str
) -> None:
    DAMAGES[damage](Checkpoints(run.checkpoints).path(ROUNDS - 1))
    code, _, err = resumed(call)
    if damage in ("a folder",):  # it cannot be deleted when it is no longer needed
        assert code == 2 and "round-000003.safetensors" in err and err.count("\n") == 1
        return
    assert (code, err) == (0, "")
    assert results_of(run) == whole


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_private_state(
    call: Call, run: RunFolder, whole: dict[str, str], damage: str
) -> None:
    """Its owner is named; with the newest checkpoint moved away it is no longer asked for."""
    path = run.client("site-1") / "momentum" / f"round-{ROUNDS:06d}.safetensors"
    before = kept_names(run)
    DAMAGES[damage](path)
    line = said(resumed(call), 1)
    assert f"site-1: error: InputError: {path}: damaged private state, " in line
    assert "site-0" not in line and "site-2" not in line and "overwrite" not in line
    assert "move the newest file of checkpoints/ away to resume from the one before it" in line
    assert before <= kept_names(run)
    Checkpoints(run.checkpoints).path(ROUNDS).rename(run.path / "away")
    if damage == "a folder":  # this one nobody can delete but its owner
        path.rmdir()
    assert resumed(call)[0] == 0
    assert results_of(run) == whole


@pytest.mark.parametrize("damage", SOME)
def test_a_damaged_history(call: Call, run: RunFolder, whole: dict[str, str], damage: str) -> None:
    """Refused with the file's name, unless all the damage is in rows after the checkpoint, which are written anew."""
    file = run.path / HISTORY
    as_it_was = file.read_bytes()
    DAMAGES[damage](file)
    answer = resumed(call)
    if answer[0] == 0:
        assert results_of(run) == whole
        return
    line = said(answer)
    assert f"{file}: " in line and "overwrite" not in line
    if "move the files of" in line:
        number = int(re.findall(r"after round (\d+)", line)[-1])
        for later in range(number + 1, ROUNDS + 1):
            Checkpoints(run.checkpoints).path(later).unlink(missing_ok=True)
    else:
        assert "put the file back" in line or "see to the path" in line
        file.rmdir() if file.is_dir() else file.unlink()
        file.write_bytes(as_it_was)
    assert resumed(call)[0] == 0
    assert results_of(run) == whole


@pytest.mark.parametrize("tail", [b"\0", b"\n", b"{", b"hello\n", b'{"round": 9}\n', b"\xff" * 99])
@pytest.mark.parametrize("name", [HISTORY, TIMINGS])
def test_what_was_written_after_the_checkpoint_is_dropped(
    call: Call, run: RunFolder, whole: dict[str, str], tail: bytes, name: str
) -> None:
    """Of the times a torn last line alone."""
    with (run.path / name).open("ab") as file:
        file.write(tail)
    code, out, err = resumed(call)
    if name == TIMINGS and tail.endswith(b"\n"):
        line = said((code, out, err))
        assert f"{TIMINGS}: line " in line and "or move it away" in line
        (run.path / name).rename(run.path / "away")
        code, _, err = resumed(call)
    assert (code, err) == (0, "")
    assert results_of(run) == whole


CONFIGS: dict[str, tuple[Callable[[dict], object], str]] = {
    "another seed": (lambda c: c | {"seed": 1}, "cannot resume with seed = 0"),
    "another width": (lambda c: c | {"width": 9}, "cannot resume with width = 4"),
    "an unknown key": (lambda c: c | {"sed": 1}, "unknown key 'sed'"),
    "a wrong type": (lambda c: c | {"seed": "1"}, "seed must be a whole number"),
    "a value outside": (lambda c: c | {"seed": -1}, "seed must be a value >="),
    "a table": (lambda c: c | {"seed": {}}, "seed must be a whole number"),
    "a list": (lambda c: [c], "no JSON object"),
    "null": (lambda c: None, "no JSON object"),
    "endless digits": (lambda c: c | {"seed": 10**4000}, "seed must be a value <="),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_changed_configuration(call: Call, run: RunFolder, case: str) -> None:
    change, words = CONFIGS[case]
    before = kept_names(run)
    run.config.write_text(json.dumps(change(json.loads(run.config.read_text()))))
    assert words in said(resumed(call))
    assert kept_names(run) == before


@pytest.mark.parametrize("damage", SOME)
@pytest.mark.parametrize("name", ["roster.json", "model.safetensors", "closing.txt", "run.json"])
def test_a_file_that_is_written_anew(
    call: Call, run: RunFolder, whole: dict[str, str], name: str, damage: str
) -> None:
    """What a run writes anew it does not ask for; of run.json, which says how it stands, one that is no JSON is named."""
    file = run.path / name
    DAMAGES[damage](file)
    answer = resumed(call)
    if answer[0]:
        line = said(answer)
        assert f"{file}: " in line or damage in ("a folder", "a link to itself")
        assert name != "run.json" or damage == "a folder" or "delete this one file" in line
        shutil.rmtree(file) if file.is_dir() else file.unlink()
        answer = resumed(call)
    assert answer[0] == 0
    assert results_of(run) == whole


def test_checkpoints_that_are_gone_do_not_take_the_rest_with_them(
    call: Call, run: RunFolder
) -> None:
    shutil.rmtree(run.checkpoints)
    line = said(resumed(call))
    assert f"{run.checkpoints}: no checkpoint, although the run has got further" in line
    assert run.model.is_file() and (run.path / HISTORY).is_file() and run.client("site-0").is_dir()
