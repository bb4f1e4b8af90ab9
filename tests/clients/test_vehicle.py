"""The vehicle client by itself: what it keeps, what it gives, and that memory, disk and failures change nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from clients.numpy_client_app import named_arrays
from clients.vehicle import VehicleClient, VehicleSite
from fedsuite.arrays import Arrays, module_arrays, with_prefix
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.frames import Frames, Silo
from fedsuite.driving.evaluation.predict import predict
from fedsuite.driving.message_keys import by_silo
from fedsuite.driving.model.networks import build_network
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.topology.mixing import mix
from fedsuite.driving.training.learner import Learner
from fedsuite.runs.versions import Versions
from tests.harness import changed

BASE: dict[str, Any] = {
    "image_size": 40,
    "batch_size": 4,
    "num_rounds": 4,
    "seed": 5,
    "batch_norm": "average",
}
NUMBERS = (3, 7)  # of the two silos, as the run counts them


def frames_of(count: int, seed: int) -> Frames:
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 1, 40, 40), np.uint8)
    return Frames(images, rng.uniform(-0.4, 0.4, count).astype(np.float32))


SILOS = tuple(Silo(f"silo-{n}", frames_of(8 + n, n), frames_of(5, 10 + n)) for n in NUMBERS)


def client_of(folder: Path, count: int = 2, **changes: Any) -> VehicleClient:
    """A client that holds the first `count` of the two silos; they average when they mix inside a message."""
    config = changed(CDLConfig(), **{**BASE, **changes})
    network = build_network("resnet8", 40, 1, dropout=config.network.dropout, seed=config.seed)
    site = VehicleSite(
        partition=1, name="pair", numbers=NUMBERS[:count], silos=SILOS[:count],
        private=Versions(folder), network=network, names=names_of(network, config),
        initial=module_arrays(network), device="cpu",
    )  # fmt: skip
    return VehicleClient(site, config, lambda t: np.full((count, count), 1 / count))


def start_of(client: VehicleClient) -> Arrays:
    """Backbones before round 1 [S, ...]."""
    mixed, size = client.site.names.mixed, len(client.site.silos)
    return {k: np.repeat(v[None], size, 0) for k, v in client.site.initial.items() if k in mixed}


def train(
    client: VehicleClient, arrays: Arrays, number: int, mixings: int = 1, checkpoint: int = 0
) -> tuple[Arrays, int, dict[str, Any]]:
    config = {
        "round": number, "checkpoint-rounds": str(checkpoint), "first-mixing": (number - 1) * mixings,
        "mixings": mixings, "array-names": "\n".join(arrays),
    }  # fmt: skip
    values, examples, metrics = client.fit(list(arrays.values()), config)
    return named_arrays(values, metrics), examples, metrics


def equal(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_it_says_who_it_is_and_what_every_silo_has(tmp_path: Path) -> None:
    assert client_of(tmp_path).get_properties({}) == {
        "partition": 1, "name": "pair", "num-examples": 11 + 15,
        "silo.3.num-examples": 11, "silo.7.num-examples": 15,
    }  # fmt: skip


def test_training_returns_backbones_counts_and_losses_only(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    begin = start_of(client)
    arrays, examples, metrics = train(client, begin, 1)
    assert {k: v.shape for k, v in arrays.items()} == {k: v.shape for k, v in begin.items()}
    assert not equal(arrays, begin) and examples == 26
    terms = {"regression-loss", "cd-plus", "cd-minus", "loss", "sub-network-distance"}
    assert {k: set(v) for k, v in by_silo(metrics).items()} == {3: terms, 7: terms}
    assert set(metrics) == {f"silo.{n}.{t}" for n in NUMBERS for t in terms} | {"array-names"}


def test_the_sub_network_starts_as_the_first_local_backbone_and_stays(tmp_path: Path) -> None:
    """It is copied before anything is mixed, and goes its own way from the second mixing step."""
    client = client_of(tmp_path)
    first, _, metrics = train(client, start_of(client), 1)
    stored = load_file(tmp_path / "round-000001.safetensors")
    assert {k.removeprefix("sub.") for k in stored if k.startswith("sub.")} == first.keys()
    assert all(np.array_equal(stored[f"sub.{k}"], v) for k, v in first.items())
    assert metrics["silo.3.sub-network-distance"] == 0.0
    mixed = {k: np.repeat(v.mean(0, keepdims=True).astype(v.dtype), 2, 0) for k, v in first.items()}
    _, _, metrics = train(client, mixed, 2)
    later = load_file(tmp_path / "round-000002.safetensors")
    assert not np.array_equal(later["sub.stem.conv.weight"], stored["sub.stem.conv.weight"])
    assert metrics["silo.3.sub-network-distance"] > 0


def test_without_the_loss_there_is_no_sub_network(tmp_path: Path) -> None:
    client = client_of(tmp_path, loss="none")
    train(client, start_of(client), 1)
    stored = load_file(tmp_path / "round-000001.safetensors")
    assert stored and all(k.startswith("moments.backbone.") for k in stored)


@pytest.mark.slow
def test_a_client_that_starts_anew_goes_on_from_its_disk(tmp_path: Path) -> None:
    """Bytes are the same whether the silos stayed in memory or came back from disk."""
    kept, again = client_of(tmp_path / "a"), client_of(tmp_path / "b")
    arrays = start_of(kept)
    for number in (1, 2, 3):
        one = train(kept, arrays, number, checkpoint=1)
        two = train(client_of(tmp_path / "b"), arrays, number, checkpoint=1)
        assert equal(one[0], two[0]) and one[2] == two[2]
        arrays = one[0]
    again.get_properties({"resume-round": 1})  # rounds 2 and 3 are to be played again
    assert Versions(tmp_path / "b").rounds() == [1]


def test_a_round_played_again_gives_the_same_bytes(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    first, _, _ = train(client, start_of(client), 1)
    second = train(client, first, 2, checkpoint=1)
    state = (tmp_path / "round-000002.safetensors").read_bytes()
    client.get_properties({"resume-round": 1})
    again = train(client, first, 2)
    assert equal(second[0], again[0]) and second[2] == again[2]
    assert (tmp_path / "round-000002.safetensors").read_bytes() == state


def test_old_versions_go_once_a_checkpoint_covers_them(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    arrays = start_of(client)
    for number, checkpoint in ((1, 0), (2, 0), (3, 2)):
        arrays, _, _ = train(client, arrays, number, checkpoint=checkpoint)
    assert client.site.private.rounds() == [2, 3]


def test_a_diverged_round_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The silo goes on as if the round had not been: same bytes as a silo that was not asked."""
    client, spared = client_of(tmp_path / "a"), client_of(tmp_path / "b")
    first, _, _ = train(client, start_of(client), 1)
    train(spared, start_of(spared), 1)
    original = Learner.train

    def spoilt(self: Learner, first: int, count: int, matrix: Callable[[int], np.ndarray]) -> Any:
        terms = original(self, first, count, matrix)
        with torch.no_grad():
            self.networks.sub["trunk.head.bias"].fill_(torch.inf)
        return terms

    monkeypatch.setattr(Learner, "train", spoilt)
    with pytest.raises(ValueError, match=r"pair: training diverged, .*NaN or infinity; lower"):
        train(client, first, 2)
    monkeypatch.undo()
    assert client.site.private.rounds() == [1]
    one, two = train(client, first, 3), train(spared, first, 3)
    assert equal(one[0], two[0]) and one[2] == two[2]


def test_a_backbone_of_another_shape_is_refused(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    arrays = start_of(client)
    arrays["trunk.head.weight"] = arrays["trunk.head.weight"][:1]
    with pytest.raises(ValueError, match=r"trunk.head.weight: expected shape \(2, 1, 512\)"):
        train(client, arrays, 1)
    assert client.site.private.rounds() == []


def test_mixings_inside_a_message_equal_messages_of_one(tmp_path: Path) -> None:
    inside, outside = client_of(tmp_path / "a"), client_of(tmp_path / "b")
    both, _, _ = train(inside, start_of(inside), 1, mixings=2)
    one, _, _ = train(outside, start_of(outside), 1)
    two, _, _ = train(outside, mix(one, np.full((2, 2), 0.5)), 2)
    assert equal(both, two)


def ask(client: VehicleClient, number: int, arrays: Arrays) -> dict[int, dict[str, float]]:
    """Metrics of an evaluation, by silo."""
    config = {"round": number, "checkpoint-rounds": "0", "array-names": "\n".join(arrays)}
    _, examples, metrics = client.evaluate(list(arrays.values()), config)
    assert examples == 10
    return by_silo(metrics)


def test_scores_are_sums_over_each_silos_held_out_frames(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    own, _, _ = train(client, start_of(client), 1)
    average = client.site.initial
    found = ask(client, 1, with_prefix(own, "own.") | with_prefix(average, "average."))
    for i, number in enumerate(NUMBERS):
        for label, model in (("own", {k: v[i] for k, v in own.items()}), ("average", average)):
            tensors = {k: torch.tensor(v) for k, v in model.items()}
            gap = predict(client.site.network, tensors, SILOS[i].test, 3, "cpu")
            gap = gap.astype(np.float64) - SILOS[i].test.angles
            scored = found[number]
            assert scored[f"{label}.count"] == 5
            assert scored[f"{label}.squared-error"] == pytest.approx((gap**2).sum(), rel=1e-4)
            assert scored[f"{label}.absolute-error"] == pytest.approx(np.abs(gap).sum(), rel=1e-4)
    alone = ask(client, 1, with_prefix(average, "average."))
    assert alone[3] == {k: v for k, v in found[3].items() if k.startswith("average.")}


def test_norms_kept_at_home_are_trained_scored_with_and_never_sent(tmp_path: Path) -> None:
    client = client_of(tmp_path, batch_norm="local")
    kept = client.site.names.local
    begin = start_of(client)
    arrays, _, _ = train(client, begin, 1)
    assert kept and not kept & arrays.keys()
    stored = load_file(tmp_path / "round-000001.safetensors")
    name = next(k for k in sorted(kept) if k.endswith("running_mean"))
    assert not np.array_equal(stored[f"backbone.{name}"][0], stored[f"backbone.{name}"][1])
    own = with_prefix(arrays, "own.")
    in_memory = ask(client, 1, own)
    from_disk = ask(client_of(tmp_path, batch_norm="local"), 1, own)
    never_trained = ask(client_of(tmp_path / "new", batch_norm="local"), 1, own)
    assert in_memory == from_disk != never_trained


def test_what_a_silo_learns_does_not_depend_on_its_company(tmp_path: Path) -> None:
    pair, alone = client_of(tmp_path / "a"), client_of(tmp_path / "b", count=1)
    both, single = start_of(pair), start_of(alone)
    for number in (1, 2):
        both, _, _ = train(pair, both, number)
        single, _, _ = train(alone, single, number)
    assert equal({k: v[:1] for k, v in both.items()}, single)
