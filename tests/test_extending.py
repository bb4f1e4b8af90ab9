"""The worked examples of docs/extending.md and extending-systems.md: as short as promised, and doing what they say."""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from PIL import Image

from fedsuite.arrays import forms_of
from fedsuite.averaging.exchange import Exchange
from fedsuite.averaging.merging import ServerStep
from fedsuite.averaging.settings import FedAvgSettings
from fedsuite.averaging.step import Step
from fedsuite.driving.checks import validate
from fedsuite.driving.config import CDLConfig
from fedsuite.errors import InputError
from fedsuite.history import load_runs
from fedsuite.privacy.accounting import epsilon_of_gaussian
from fedsuite.randomness import rng_for
from fedsuite.roster.members import ROSTER, read_roster
from fedsuite.runs.folder import RunFolder, read_stored_config
from fedsuite.settings.config import read_config
from fedsuite.vln.config import FedVLNConfig
from simulations.check_system import check_system
from simulations.engines.inprocess import run_inprocess
from simulations.results.watching.state import standing
from simulations.systems import load_system
from tests.golden.runs import RUNS
from tests.harness import ROOT, changed, config_from, full_keys
from tests.simulations.test_torch_system import client_of, visit
from tests.test_docs import OWN, PAGES, check_request, commands, context_of

pytestmark = pytest.mark.slow

PAGE = "".join(
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("extending", "extending-systems")
)
BLOCK = re.compile(r"`(\w+)\.py`:\n\n```python\n(.*?)```", re.S)
MOST_LINES = {
    "lion": 20, "elastic": 20, "meamed": 20, "distance": 15, "linear": 20, "glance": 40,
    "near": 8, "detour": 8, "brief": 8, "chains": 60, "limited": 20,
    "lines": 60, "regression": 45, "noisy": 30, "choice": 20, "half": 20,
    "ditto": 30, "largest": 35,
}  # fmt: skip
HOUSES = RUNS["vln-train-parallel"] | {
    "num-rounds": 2,
    "participation-rate": 1.0,
    "server-learning-rate": 1.0,
}
REGRESSION = {"system": "regression:SYSTEM", "num-rounds": 4, "learning-rate": 0.5}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files in a folder that Python finds."""
    for name, text in BLOCK.findall(PAGE):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


Play = Callable[..., Any]


@pytest.fixture
def play(tmp_path: Path, cache: Path) -> Play:
    """`play(name, settings, key=value)`: rounds of a run with these settings."""

    def play(name: str, settings: Mapping[str, Any], **changes: Any) -> Any:
        values = {**settings, "name": name, "results-dir": str(tmp_path / "runs")}
        if values.get("system") != REGRESSION["system"]:  # it has no data to keep
            values["cache-dir"] = str(cache)
        run_inprocess(config_from(values | {k.replace("_", "-"): v for k, v in changes.items()}))
        return load_runs(tmp_path / "runs" / name).rounds

    return play


def test_commands_with_files_of_the_readers_own_are_not_refused(files: Path) -> None:
    (text,) = re.findall(r"^`regression\.toml`:\n\n((?:    .+\n)+)", PAGE, re.MULTILINE)
    (files / "regression.toml").write_text(re.sub("^    ", "", text, flags=re.MULTILINE))
    found = 0
    for words in (words for page in PAGES for words in commands(page)):
        if words[0] not in ("run", "sweep", "config") or len(words) == 1:
            continue
        context = context_of(words)
        changes, config = context.params["change"] or [], context.params["config"]
        if config and (any(map(OWN.search, changes)) or Path(config).is_file()):
            check_request(context, own=True)
            found += 1
    assert found > 25


def test_every_file_is_as_short_as_promised() -> None:
    lines = {name: len(text.splitlines()) for name, text in BLOCK.findall(PAGE)}
    assert lines.keys() == MOST_LINES.keys()
    assert {n: k for n, k in lines.items() if k > MOST_LINES[n]} == {}


def test_a_server_optimizer(play: Play) -> None:
    """Every number that a house moved moves by eta."""
    from lion import lion  # type: ignore[import-not-found]

    model = {"w": np.zeros(3)}
    first, state = lion(model, {"w": np.array([4.0, -1.0, 0.0])}, {}, ServerStep(0.5))
    assert first["w"].tolist() == [0.5, -0.5, 0]
    second, _ = lion(first, {"w": np.array([-0.1, 0.0, 2.0])}, state, ServerStep(0.5))
    assert second["w"].tolist() == [1.0, -1.0, 0.5]
    own = {"server_optimizer": "lion:lion", "server_learning_rate": 1e-3}
    norms = play("signs", HOUSES, **own)["update-norm"].dropna()
    assert np.isfinite(norms).all() and 0 < norms.max() < 1


def test_a_local_penalty(play: Play) -> None:
    """Without strength it changes nothing; a strong one keeps the houses near where they started."""
    own = {"local_penalty": "elastic:Elastic", "local_epochs": 4}
    none = play("none", HOUSES, local_epochs=4)["update-norm"]
    weak = play("weak", HOUSES, penalty_strength=0.0, **own)["update-norm"]
    strong = play("strong", HOUSES, penalty_strength=10.0, **own)["update-norm"]
    assert weak.dropna().tolist() == none.dropna().tolist()
    assert strong.dropna().iloc[0] < none.dropna().iloc[0]


SITES = {
    "system": "regression:SYSTEM",
    "num-rounds": 3,
    "federation.local-epochs": 2,
    "evaluate-every": 1,
}
TWO = {"generated-seen-houses": 2, "generated-unseen-houses": 1}  # to train in, and another
FEW = {**HOUSES, **TWO, "system": "fedvln"}
PERSONAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "heads": (
        {"federation.share": "encoder, decoder, !decoder.candidate_attention"},
        {"federation.share": "weight"},
    ),
    "ditto": (
        {"federation.local-method": "ditto:DITTO"},
        {"federation.local-method": "ditto:DITTO"},
    ),
    "codec": ({"federation.codec": "largest:LARGEST"}, {"federation.codec": "largest:LARGEST"}),
}


@pytest.mark.parametrize("kind", PERSONAL)
def test_what_travels_and_what_stays_in_any_system(tmp_path: Path, cache: Path, kind: str) -> None:
    """Runs repeat, and resume, to the byte, with houses and with clients of one's own."""
    houses, sites = PERSONAL[kind]
    values = full_keys(FedVLNConfig, {**FEW, "cache-dir": str(cache)}) | houses
    check_system(values, tmp_path / "houses")
    check_system({**SITES, **sites}, tmp_path / "sites")


def kept_of(run: Path, name: str) -> dict[str, np.ndarray]:
    """A client's newest private state."""
    newest = max((run / "clients" / name).glob("round-*.safetensors"))
    return safetensors.numpy.load_file(newest)


def test_heads_stay(tmp_path: Path, play: Play) -> None:
    """The server has no head; every house's export is the server's part with its own head."""
    play("heads", {**FEW, **PERSONAL["heads"][0]})
    run = tmp_path / "runs" / "heads"
    merged = safetensors.numpy.load_file(run / "model.safetensors")
    heads = []
    for name in read_roster(run / ROSTER).names:
        model = safetensors.numpy.load_file(run / "clients" / name / "model.safetensors")
        kept = {k.removeprefix("agent.") for k in kept_of(run, name) if k.startswith("agent.")}
        assert kept == model.keys() - merged.keys() and kept
        assert all(k.startswith(("critic.", "decoder.candidate_attention.")) for k in kept)
        assert all(np.array_equal(model[k], v) for k, v in merged.items())
        heads.append(np.concatenate([model[k].ravel() for k in sorted(kept)]))
    assert len({head.tobytes() for head in heads}) == len(heads)  # the unseen one's is the start
    with pytest.raises(InputError, match=r"federation\.share: no array is named .*head"):
        play("none", {**FEW, "federation.share": "encoder, head"})
    with pytest.raises(InputError, match=r"federation\.share: .*federation\.method=federated"):
        play("alone", {**FEW, "federation.share": "encoder", "method": "local-only"})


def test_ditto(tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's model is FedAvg's, to the byte; the own ones are the nearer to it the stronger they are drawn."""
    import ditto  # type: ignore[import-not-found]

    play("plain", SITES)
    far = {}
    for strength in (0.0, 0.1, 5.0):
        monkeypatch.setattr(ditto, "STRENGTH", strength)
        play(f"ditto-{strength}", {**SITES, **PERSONAL["ditto"][1]})
        run = tmp_path / "runs" / f"ditto-{strength}"
        model = (run / "model.safetensors").read_bytes()
        assert model == (tmp_path / "runs" / "plain" / "model.safetensors").read_bytes()
        merged = safetensors.numpy.load(model)
        own = kept_of(run, "north")
        far[strength] = sum(float(abs(own[f"method.{k}"] - v).sum()) for k, v in merged.items())
    assert far[0.0] > far[0.1] > far[5.0] > 0


def test_a_codec(tmp_path: Path, play: Play) -> None:
    """What was sent and what waits at a client add up to all that it has learnt."""
    from largest import LARGEST  # type: ignore[import-not-found]

    exchange, rng = Exchange(codec=LARGEST), np.random.default_rng(0)
    start = {"w": np.zeros((4, 5), np.float32), "n": np.int64(3)}
    learnt, arrived, residual = np.zeros((4, 5)), np.zeros((4, 5)), dict[str, np.ndarray]()
    for _ in range(6):
        change = rng.normal(size=(4, 5)).astype(np.float32)
        wire, residual = exchange.encode(start, {"w": change, "n": np.int64(4)}, residual)
        assert forms_of(wire) == exchange.wire(forms_of(start)) and wire["w/values"].shape == (2,)
        back = exchange.decode(start, wire)
        assert back["n"] == 4 and np.count_nonzero(back["w"]) == 2
        learnt, arrived = learnt + change, arrived + back["w"]
    np.testing.assert_allclose(arrived + residual["w"], learnt, atol=1e-5)
    wire["w/places"] = wire["w/places"][::-1]
    with pytest.raises(ValueError, match="places"):
        exchange.decode(start, wire)
    play("plain", SITES)
    coded = play("coded", {**SITES, **PERSONAL["codec"][1]})
    up = {n: load_runs(tmp_path / "runs" / n).clients["bytes-up"].max() for n in ("plain", "coded")}
    assert up["plain"] == 60 and up["coded"] == 8 * (2 + 1)  # 12 weights and 3 of the bias
    assert coded["accuracy"].dropna().iloc[-1] > coded["accuracy"].dropna().iloc[0]
    assert kept_of(tmp_path / "runs" / "coded", "north").keys() == {
        "residual.weight",
        "residual.bias",
    }


def test_a_codec_of_silos(play: Play) -> None:
    """What silos of CDL send is a fifth of what they send without it: a tenth of the numbers, with their places."""
    common = {**RUNS["cdl-star"], "batch-norm": "group", "num-rounds": 2}
    plain = play("plain", common)["overlay-bytes"].dropna()
    coded = play("coded", {**common, **PERSONAL["codec"][0]})["overlay-bytes"].dropna()
    up = (2 * coded - plain) / plain  # half of all bytes go down, and are what they were
    assert len(up) and ((up > 0.2) & (up < 0.21)).all()


def test_a_lost_answer_does_not_lose_what_a_codec_left_out(tmp_path: Path) -> None:
    """A client whose round 2 was lost sends and keeps what one does that was never asked in round 2."""
    after = []
    for lost in (False, True):
        client = client_of(tmp_path / str(lost), **{"federation.codec": "largest:LARGEST"})
        visit(client, 1)
        if lost:
            visit(client, 2, **{"last-trained": 1})
        sent = visit(client, 3, **{"last-trained": 1})
        after.append((sent, client.private.path(3).read_bytes()))
    assert after[0] == after[1]


def test_a_merge_rule(play: Play) -> None:
    from meamed import NEAR_MEDIAN  # type: ignore[import-not-found]

    server = {"w": np.zeros(2, np.float32)}
    clients = [{"w": np.array(v, np.float32)} for v in ([1, 9], [2, 1], [100, 2], [3, 3])]
    merged = NEAR_MEDIAN.combine(server, clients, np.full(4, 0.25), 1)
    assert merged.delta["w"].tolist() == [2.0, 2.0]
    own = {"merge": "meamed:NEAR_MEDIAN", "federation.tolerated": 1}
    rounds = play("near", HOUSES, **own)
    assert np.isfinite(rounds["update-norm"].dropna()).all()


def test_a_merge_rule_with_a_stream_and_a_memory(tmp_path: Path, play: Play) -> None:
    """Its noise is all that differs from the mean of shortened changes, and is another in every round."""
    import noisy  # type: ignore[import-not-found]

    server = {"w": np.zeros(3)}
    clients = [{"w": np.array([3.0, 4.0, 0.0])}, {"w": np.array([0.0, 0.6, 0.0])}]
    found = []
    for number in (1, 2):
        step = Step(round=number, seed=7, purpose="merge")
        delta = noisy.NOISY_MEAN.merged(server, clients, np.full(2, 0.5), 0, step).delta["w"]
        noise = Step(round=number, seed=7, purpose="merge").rng.normal(0, noisy.NOISE / 2, 3)
        np.testing.assert_allclose(delta - noise, [0.3, 0.7, 0.0])
        found.append(delta)
    assert not np.allclose(*found)
    own = {**REGRESSION, "merge": "noisy:NOISY_MEAN"}
    check_system(full_keys(FedAvgSettings, own), tmp_path / "checked")
    epsilon = play("noisy", own)["merge.epsilon"].dropna()
    want = [epsilon_of_gaussian(noisy.NOISE / 2, n, noisy.DELTA) for n in (1, 2, 3, 4)]
    assert epsilon.tolist() == want and sorted(want) == want


def test_who_takes_part(tmp_path: Path, play: Play, cache: Path) -> None:
    """Of the candidates of a round those with the highest last loss, by what the history says of them."""
    own = {**REGRESSION, "participation": "choice:highest_loss", "participation-rate": 0.4}
    check_system(full_keys(FedAvgSettings, {**own, "num-rounds": 3}), tmp_path / "checked")
    play("choice", own, num_rounds=8)
    clients = load_runs(tmp_path / "runs" / "choice").clients
    trained = clients[clients["task"] == "train"]
    sizes, last = np.array([30, 40, 50, 60, 70]), {}
    for number in range(1, 9):
        rng = Step(round=number, seed=0, purpose="participation").rng
        drawn = sorted(rng.choice(5, 4, replace=False, p=sizes / sizes.sum()).tolist())
        want = sorted(sorted(drawn, key=lambda p: -last.get(p, np.inf))[:2])
        rows = trained[trained["round"] == number]
        assert rows["partition"].tolist() == want
        last |= dict(zip(rows["partition"], rows["loss"], strict=True))
    houses = {**FEW, "participation": "choice:highest_loss"}
    houses["participation-rate"] = 0.5
    values = full_keys(FedVLNConfig, {**houses, "num-rounds": 3, "cache-dir": str(cache)})
    check_system(values, tmp_path / "houses")


@pytest.mark.parametrize("own", [{"loss": "distance:DISTANCE"}, {"model": "linear:Linear"}])
def test_a_contrastive_loss_and_a_network(
    tmp_path: Path, play: Play, cache: Path, own: dict[str, Any]
) -> None:
    """Something else is learnt; runs of it repeat, and resume, to the byte; a stacked one learns the same."""
    settings = {
        **RUNS["cdl-ring-plain"],
        "loss": "kl",
        "dropout": 0.0,
        "num-rounds": 2,
        "num-silos": 3,
    }
    whole = {**settings, **own, "system": "cdl", "cache-dir": str(cache)}  # with tables and plots
    check_system(full_keys(CDLConfig, whole), tmp_path / "checked")
    one = play("one", {**settings, **own}, evaluate_every=1)["rmse"].dropna()
    stacked = play("stacked", {**settings, **own}, evaluate_every=1, stacked="yes")["rmse"].dropna()
    np.testing.assert_allclose(one, stacked, rtol=1e-4)
    assert one.iloc[-1] != play("kl", settings, evaluate_every=1)["rmse"].dropna().iloc[-1]


def test_a_decoder(tmp_path: Path, play: Play, cache: Path, call: Any) -> None:
    """Runs of it repeat, and resume, to the byte; its walks are drawn; another decoder does not go on from it."""
    settings = {**HOUSES, "system": "fedvln", "objective": "a2c", "decoder": "glance:Glance"}
    checked = {**settings, **TWO}
    check_system(
        full_keys(FedVLNConfig, {**checked, "cache-dir": str(cache)}), tmp_path / "checked"
    )
    assert np.isfinite(play("glance", settings)["update-norm"].dropna()).all()
    run = tmp_path / "runs" / "glance"
    names = set(safetensors.numpy.load((run / "model.safetensors").read_bytes()))
    assert (
        "decoder.joined.weight" in names and "decoder.candidate_attention.query.weight" not in names
    )
    house = read_roster(run / ROSTER).names[0]
    where = ["--house", house, "--instruction", "turn left and stop", "-o", "walk.png"]
    code, out, err = call("walk", str(run), *where, engine=False)
    assert code == 0 and (tmp_path / "walk.png").is_file(), (out, err)
    with pytest.raises(InputError, match=r"has another decoder; set agent\.decoder as in the run"):
        play("other", {**settings, "decoder": "envdrop", "start-from": str(run)})


OWN_METRICS = {
    "near": ("cdl-ring-cross", "near:NEAR", "within 0.1 (%)", "near", "rmse"),
    "detour": ("vln-train-parallel", "detour:DETOUR", "length ratio", "val_unseen.detour", "val_unseen.sr"),
    "brief": ("rl-joint", "brief:BRIEF", "at once (%)", "valid.brief", "valid.success-rate"),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN_METRICS)
def test_a_metric(name: str, tmp_path: Path, play: Play, call: Any) -> None:
    """It is wherever the system's own are, and changes nothing of what they are."""
    run, value, title, column, other = OWN_METRICS[name]
    settings = {
        **RUNS[run],
        "system": {"cdl": "cdl", "vln": "fedvln", "rl": "fedrl"}[run[:3].rstrip("-")],
    }
    rounds = play(name, {**settings, "evaluation.metrics": value})
    found = rounds[column].dropna()
    assert len(found) > 0 and np.isfinite(found).all() and (found >= 0).all()
    without = play("without", settings)
    assert rounds[without.columns[1:]].equals(without[without.columns[1:]])

    folder = tmp_path / "runs" / name
    runs = load_runs(folder)
    own = runs.evaluations[runs.evaluations["metric"] == name]
    assert set(own["unit"]) == {runs.runs[0].metrics.row(name).unit} and len(own) >= len(found)
    assert title in (folder / "results.md").read_text()
    system, stored = load_system(str(settings["system"])), read_stored_config(RunFolder(folder))
    system.compare(folder.parent, {name: read_config(system.config_class, stored, "config.json")})
    assert title in (folder.parent / "results.md").read_text()
    assert call("report", str(folder), "-o", "report.md", engine=False)[0] == 0
    assert title.removesuffix(" (%)") in (tmp_path / "report.md").read_text()
    assert call("export", str(folder), "--to", "csv", "-o", "exported", engine=False)[0] == 0
    assert column in (tmp_path / "exported" / "rounds.csv").read_text().splitlines()[0].split(",")
    assert standing(folder).metrics.keys() >= {column, other}
    sys.modules.pop(name)
    (tmp_path / f"{name}.py").unlink()  # another machine has the folder alone
    assert load_runs(folder).runs[0].metrics.row(column).heading == title.removesuffix(" (%)")


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('Metric("rmse", compute=abs)', "rename it"),
        ('Metric("near")', "expected a Metric with `compute`"),
        ('Metric("near", compute=lambda a, b: 1 / 0)', "correct it"),
        ('Metric("near", compute=lambda a, b: (a - b).mean())', r"return an array \[n\]"),
    ],
)
def test_a_metric_that_is_none(text: str, cure: str, files: Path) -> None:
    (files / "wrong.py").write_text(
        f"from fedsuite.settings.metrics import Metric\nNEAR = {text}\n"
    )
    sys.modules.pop("wrong", None)
    config = changed(CDLConfig(), metrics="wrong:NEAR")
    with pytest.raises(InputError, match=rf"^evaluation\.metrics: .*{cure}"):
        validate(config)


def test_a_strategy_for_an_existing_system(
    tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains of one house are parallel averaging, to the last bit; chains of two are something else."""
    import chains  # type: ignore[import-not-found]

    settings = {**HOUSES, "system": "chains:SYSTEM", "client-optimizer": "fresh"}
    play("two", settings)
    monkeypatch.setattr(chains, "LENGTH", 1)
    play("one", settings)
    play("parallel", {**HOUSES, "system": "fedvln", "client-optimizer": "fresh"})
    two, one, parallel = (
        (tmp_path / "runs" / name / "model.safetensors").read_bytes()
        for name in ("two", "one", "parallel")
    )
    assert one == parallel and two != one


def test_a_strategy_that_sees_what_passes(tmp_path: Path, play: Play, cache: Path) -> None:
    """No number moves further than the file says, where it does otherwise; runs repeat and resume."""
    free = play("free", {**HOUSES, "system": "fedvln"})["update-norm"].dropna()
    low = play("low", {**HOUSES, "system": "limited:SYSTEM"})["update-norm"].dropna()
    model = safetensors.numpy.load_file(tmp_path / "runs" / "low" / "model.safetensors")
    most = 1e-4 * sum(v.size for v in model.values()) ** 0.5
    assert (low <= 1.001 * most).all() and (free > 1.1 * most).all() and len(low) == len(free) > 0
    values = {**HOUSES, **TWO, "system": "limited:SYSTEM", "cache-dir": str(cache)}
    check_system(full_keys(FedVLNConfig, values), tmp_path / "checked")


def test_a_round_that_goes_on_without_the_slowest(tmp_path: Path, play: Play, cache: Path) -> None:
    """Half of a round's houses train, as drawn, and the others have their lines; runs repeat and resume."""
    settings = {**HOUSES, "system": "half:SYSTEM", "num-rounds": 3}
    play("half", settings)
    clients = load_runs(tmp_path / "runs" / "half").clients
    trained = clients[clients["task"] == "train"]
    for number in (1, 2, 3):
        order = rng_for(0, "who is quick", number).permutation(4)
        for status, want in (("ok", order[:2]), ("late", order[2:])):
            rows = trained[(trained["round"] == number) & (trained["status"] == status)]
            assert rows["partition"].tolist() == sorted(want)
    values = full_keys(FedVLNConfig, {**settings, **TWO, "cache-dir": str(cache)})
    check_system(values, tmp_path / "checked")


def test_a_drive_format(tmp_path: Path, play: Play) -> None:
    rng = np.random.default_rng(0)
    for drive in ("north", "south"):
        own = tmp_path / "drives" / drive
        own.mkdir(parents=True)
        for i in range(120):
            Image.fromarray(rng.integers(0, 255, (48, 48), np.uint8)).save(own / f"{i:03d}.png")
        lines = (f"{i:03d}.png {rng.uniform(-0.5, 0.5):.3f}" for i in range(120))
        (own / "drive.txt").write_text("\n".join(lines) + "\n")
    settings = {**RUNS["cdl-ring-plain"], "num-silos": 0, "data.dir": str(tmp_path / "drives")}
    rounds = play("own", {**settings, "data.kind": "lines:FORMAT"})
    assert rounds["rmse"].dropna().iloc[-1] > 0
    assert sorted(p.name for p in (tmp_path / "runs" / "own" / "clients").iterdir()) == [
        "north",
        "south",
    ]


def test_a_system_of_ones_own(tmp_path: Path, call: Any) -> None:
    """It learns; tests/simulations/test_torch_system.py compares it with a program of its own."""
    block = re.search(r"`regression\.toml`:\n\n((?:    .*\n)+)", PAGE)
    assert block is not None
    (tmp_path / "regression.toml").write_text(re.sub(r"^    ", "", block.group(1), flags=re.M))
    code, _, err = call("run", "regression.toml")
    assert code == 0, err
    rounds = load_runs(tmp_path / "runs").rounds
    accuracy = rounds["accuracy"].dropna()
    assert accuracy.iloc[0] < 0.6 and accuracy.iloc[-1] > 0.9
    code, _, err = call("run", "regression.toml", "--set", "measurements=2")
    assert code == 2 and "measurements must be a value >= 3" in err


def test_a_system_of_ones_own_takes_25_lines_of_code() -> None:
    """Blank lines and docstrings apart."""
    text = dict(BLOCK.findall(PAGE))["regression"]
    lines = [line.strip() for line in text.splitlines()]
    assert len([line for line in lines if line and not line.startswith('"""')]) <= 25
