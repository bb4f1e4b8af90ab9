"""Files of somebody else, in every folder that a command can be pointed at: they are there afterwards, as they were."""

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from simulations.commands.cli import app
from tests.harness import exit_code_of, write_toml
from tests.mistakes.refusing import Call, said

# Parameters that name no file or folder.
NO_PLACE = {
    *("configs system", "init --system", "init --like", "export --to", "keys system", "deploy server --listen"),
    *("walk --house", "walk --instruction", "walk --path", "walk --start", "steer --silo"),
    *(
        f"{command} {name}"
        for command in ("run", "sweep")
        for name in ("--seeds", "--only", "--vary", "--metric", "--target", "--variant", "--cluster", "--log")
    ),
    *(f"slurm {name}" for name in ("--seeds", "--only", "--time", "--option")),
    *("config --set", "config --only", "data prepare-node --set", "data export --set", "deploy cost --set"),
    *("deploy init --set", "deploy roster --set", "deploy check --set", "deploy init --host", "deploy init --nodes"),
    *("deploy add name", "deploy add --set", "deploy revoke name"),
    *("audit --attacks", "audit --set"),
    *("deploy node --superlink", "deploy check --superlink", "deploy prune --run"),
}  # fmt: skip
RUN, SWEEP = "run toy.toml --engine inprocess", "sweep toy.toml --engine inprocess --vary width=2"
# Parameter -> command lines that point it at files of somebody else, in the folder `mine`.
PLACES: dict[str, tuple[str, ...]] = {
    "init name": ("init mine/mine",),
    "report runs": ("report mine -o new.html", "report mine/thesis.txt"),
    "report --out": ("report runs/own -o mine/", "report runs/own -o mine/mine.html", "report runs/own -o mine/mine.png"),
    "export runs": ("export mine --to csv -o new",),
    "export --out": ("export runs/own --to csv -o mine", "export runs/own --to tensorboard -o mine --overwrite"),
    "audit run": ("audit mine", "audit runs/own --overwrite"),
    "watch run": ("watch mine --once",),
    "walk runs": ("walk mine",),
    "walk --out": ("walk runs/own -o mine", "walk runs/own -o mine/mine.png"),
    "steer run": ("steer mine",),
    "steer pictures": ("steer runs/own mine",),
    "steer --out": ("steer runs/own -o mine/mine.png",),
    "play run": ("play mine",),
    "play --out": ("play runs/own -o mine/mine.png",),
    "config config": ("config mine/mine.toml", "config mine"),
    "runs results_dir": ("runs mine",),
    "slurm config": ("slurm mine", "slurm mine/mine.toml"),
    "slurm --set": ("slurm toy.toml --set results-dir=. --set name=mine",),
    "show run_folder": ("show mine",),
    "data prepare-node node": ("data prepare-node mine toy.toml",),
    "data prepare-node config": ("data prepare-node toy.toml mine",),
    "data prepare-node --key": ("data prepare-node toy.toml toy.toml --key mine",),
    "data prepare-node --out": ("data prepare-node toy.toml toy.toml --out mine/mine.json",),
    "data split-parties source": ("data split-parties mine -o new", "data split-parties mine/thesis.txt -o new"),
    "data split-parties --out": ("data split-parties x.npz -o mine", "data split-parties mine/mine.toml -o mine"),
    "data make-roster parts": ("data make-roster mine/mine.json --out new.json",),
    "data make-roster --out": ("data make-roster x.json --out mine/mine.json", "data make-roster x.json --out mine"),
    "data make-roster --vocabulary": ("data make-roster x.json --out new.json --vocabulary mine",),
    "data prepare features": ("data prepare mine mine new",),
    "data prepare connectivity": ("data prepare x.tsv mine new",),
    "data prepare out": ("data prepare x.tsv x mine", "data prepare mine/mine.toml mine mine"),
    "data export --out": ("data export houses --to r2r -o mine", "data export roads --to lerobot -o mine/mine.toml"),
    "data import-envdrop file": ("data import-envdrop mine --vocabulary mine/thesis.txt",),
    "data import-envdrop --vocabulary": ("data import-envdrop toy.toml --vocabulary mine/thesis.txt",),
    "data import-envdrop --out": ("data import-envdrop toy.toml --vocabulary mine/thesis.txt --out mine",),
    "data export-envdrop run": ("data export-envdrop mine -o new",),
    "data export-envdrop --out": ("data export-envdrop runs/own -o mine",),
    "deploy cost configs": ("deploy cost mine",),
    "deploy init folder": ("deploy init mine --host localhost --nodes a",),
    "deploy init --run": ("deploy init new --host localhost --run mine",),
    "deploy roster folder": ("deploy roster mine toy.toml",),
    "deploy roster config": ("deploy roster new mine",),
    "deploy roster --vocabulary": ("deploy roster new toy.toml --vocabulary mine",),
    "deploy add folder": ("deploy add mine fir", "deploy add mine fir --run toy.toml"),
    "deploy add --run": ("deploy add new fir --run mine",),
    "deploy add --part": ("deploy add new fir --part mine/mine.json", "deploy add mine fir --part mine/mine.json"),
    "deploy revoke folder": ("deploy revoke mine oak",),
    "deploy renew folder": ("deploy renew mine", "deploy renew mine --authority"),
    "deploy server folder": ("deploy server mine",),
    "deploy server --log-file": ("deploy server mine --log-file mine/mine.json",),
    "deploy node --log-file": ("deploy node mine/mine.toml --log-file mine/mine.json",),
    "deploy register folder": ("deploy register mine",),
    "deploy register keys": ("deploy register new mine",),
    "deploy node file": ("deploy node mine/mine.toml",),
    "deploy prune place": ("deploy prune mine/mine.toml --idle-days 0", "deploy prune mine"),
    "deploy node --ca": ("deploy node toy.toml --ca mine",),
    "deploy node --key": ("deploy node toy.toml --key mine",),
    "deploy check file": ("deploy check mine/mine.toml",),
    "deploy check config": ("deploy check mine/mine.toml mine",),
    "deploy check --ca": ("deploy check mine/mine.toml --ca mine",),
    "deploy check --key": ("deploy check mine/mine.toml --key mine",),
    "deploy status folder": ("deploy status mine",),
    "deploy status --roster": ("deploy status mine --roster mine/mine.json",),
}  # fmt: skip
for command, line in (("run", RUN), ("sweep", SWEEP)):
    placed = f"{line} --set results-dir=. --set name=mine"
    PLACES |= {
        f"{command} config": (f"{line.replace('toy.toml', 'mine')} --set name=new",),
        f"{command} --set": (placed, f"{placed} --overwrite", f"{placed} --only a --overwrite"),
        f"{command} --resume": (f"{line} --resume mine", f"{command} --resume mine --engine inprocess"),
        f"{command} --from": (f"{line} --from mine",),
        f"{command} --attach": (f"{command} --attach mine --connection mine",),
        f"{command} --connection": (f"{command} toy.toml --engine deploy --connection mine",),
    }  # fmt: skip
FOREIGN = (
    *("thesis.txt", "data.csv", "mine.toml", "mine.json", "mine.png", "mine.html", "rounds.csv", "config.json"),
    *("checkpoints/thesis.txt", "clients/site-0/thesis.txt", "a/thesis.txt", "own/events.out.tfevents.1.other"),
)  # fmt: skip


def parameters() -> Iterator[str]:
    """Every argument and option of every command that takes a text or a path."""

    def below(command: object, name: str) -> Iterator[str]:
        for word, inner in getattr(command, "commands", {}).items():
            yield from below(inner, f"{name} {word}".strip())
        for own in [] if hasattr(command, "commands") else getattr(command, "params", ()):
            if own.type.name in ("text", "path"):
                long = next((o for o in own.opts if o.startswith("--")), own.opts[0])
                yield f"{name} {long}"

    yield from below(typer.main.get_command(app), "")


def test_every_parameter_that_may_name_a_place_is_tried_below() -> None:
    """A new one is listed here first, with a command line that points it at files of others."""
    found = list(parameters())
    assert set(found) == PLACES.keys() | NO_PLACE and len(found) == len(PLACES) + len(NO_PLACE)


def content(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder, None for folders in it."""
    return {
        str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None
        for p in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with toy.toml, two.toml, sweep.toml and what they leave: runs/own, runs/exp, runs/swept."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for stem, end in TOMLS.items():
            toml = write_toml(folder, stem, num_rounds=1, name=stem)
            toml.write_text(toml.read_text() + end)
            patch.setattr("sys.argv", ["fedsuite", "run", toml.name, "--engine", "inprocess"])
            from simulations.commands.cli import main

            assert exit_code_of(main) == 0
    return folder


TOMLS = {
    "own": "",
    "exp": "[variants.a]\n[variants.b]\nwidth = 2\n",
    "swept": '[sweep]\nmetric = "loss"\nvary.width = [2, 3]\n',
}


@pytest.fixture
def here(made: Path, call: Call, tmp_path: Path) -> Path:
    """A copy of it, in which commands are given."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    write_toml(tmp_path, "toy", num_rounds=1)
    return tmp_path


@pytest.mark.parametrize("line", [line for lines in PLACES.values() for line in lines])
def test_files_of_others_stay_whatever_is_pointed_at_them(
    call: Call, here: Path, line: str
) -> None:
    for name in FOREIGN:
        (here / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (here / "mine" / name).write_text("{}" if name == "config.json" else "three years of work")
    runs, mine = content(here / "runs"), content(here / "mine")
    code, out, err = call(*shlex.split(line), engine=False)
    assert "Traceback" not in out + err and code in (0, 2), (code, out, err)
    assert content(here / "mine").items() >= mine.items()
    if "-o " not in line:
        assert content(here / "runs") == runs


PLANTED = (
    *("thesis.txt", "checkpoints/thesis.txt"),
    *("clients/site-0/thesis.txt", "clients/site-0/momentum/thesis.txt"),
)
REPLACED = {
    "run own.toml --overwrite": "own",
    "run exp.toml --overwrite": "exp/a",
    "run exp.toml --overwrite --only a": "exp/a",
    "run exp.toml --only b --overwrite": "exp/b",
    "sweep swept.toml --overwrite": "swept/width-2",
    "run --resume own": "own",
    "run own.toml --resume own": "own",
    "run --resume exp": "exp/a",
    "sweep --resume swept": "swept/width-2",
}


@pytest.mark.parametrize("line", REPLACED)
def test_a_run_that_would_begin_anew_among_files_of_others_is_refused(
    call: Call, here: Path, line: str
) -> None:
    """--overwrite, and --resume of a run that was stopped before its first checkpoint."""
    run = here / "runs" / REPLACED[line]
    if "--resume" in line:
        for path in ("history.jsonl", "timings.jsonl", "model.safetensors", "run.json"):
            (run / path).unlink()
        shutil.rmtree(run / "checkpoints")
    for name in PLANTED:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("three years of work")
        before = content(here)
        told = said(call(*shlex.split(line)))
        assert f"{run / name}: fedsuite does not write this" in told
        assert "nothing was touched" in told and content(here) == before
        (run / name).unlink()
    code, out, err = call(*shlex.split(line))
    assert (code, err) == (0, ""), out
    assert {p.name for p in run.iterdir()} == {
        *(".lock", "config.json", "run.json", "run-key", "roster.json", "history.jsonl", "timings.jsonl"),
        *("model.safetensors", "metrics.json", "closing.txt", "checkpoints", "clients"),
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--overwrite", ""])
def test_files_of_others_beside_an_experiments_runs(call: Call, here: Path, option: str) -> None:
    thesis = here / "runs" / "exp" / "thesis" / "data.csv"
    thesis.parent.mkdir()
    thesis.write_text("three years of work")
    before = content(here)
    said(call(*shlex.split(f"run exp.toml {option}")))
    assert content(here) == before
    assert (
        call(*shlex.split("run exp.toml --overwrite --only b"))[0] == 0
    )  # they are not in its way
    assert thesis.read_text() == "three years of work"


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        (
            "runs",
            r"a folder of runs, such as exp, and no run itself; give one of them, as in --resume",
        ),
        (".", "no run and no experiment"),
        ("empty", "no run and no experiment, so there is no run to resume here"),
    ],
)
@pytest.mark.parametrize("config", ["own.toml", ""])
def test_what_is_no_run_is_not_resumed(
    call: Call, here: Path, folder: str, config: str, told: str
) -> None:
    (here / "empty").mkdir()
    before = content(here)
    assert told in said(call(*shlex.split(f"run {config} --resume {folder}")))
    assert content(here) == before


@pytest.mark.parametrize("option", ["", "--overwrite", "--resume mine"])
def test_a_model_of_another_program_is_no_run(call: Call, here: Path, option: str) -> None:
    """Its files have names of ours."""
    (here / "mine").mkdir()
    (here / "mine" / "config.json").write_text('{"hidden_size": 8}')
    (here / "mine" / "model.safetensors").write_text("three years of work")
    before = content(here)
    said(call(*shlex.split(f"run toy.toml --set name=mine --set results-dir=. {option}")))
    assert content(here) == before


@pytest.mark.parametrize("option", ["", "--overwrite", "--resume own"])
@pytest.mark.parametrize(
    "names", [(".lock",), (".unfinished", "roster.json"), (".lock", ".run.json.17.partial")]
)
def test_what_a_run_leaves_that_was_killed_before_it_began(
    call: Call, here: Path, names: tuple[str, ...], option: str
) -> None:
    run = here / "runs" / "own"
    shutil.rmtree(run)
    run.mkdir()
    for name in names:
        (run / name).touch()
    beginning = names[0] == ".unfinished" and option != "--resume own"  # of another process, maybe
    assert call(*shlex.split(f"run own.toml {option}"))[0] == (2 if beginning else 0)
