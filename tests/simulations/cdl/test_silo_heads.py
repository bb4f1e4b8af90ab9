"""FedPer in CDL: a silo keeps its head, whoever it mixes with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from fedsuite.arrays import under_prefix
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network
from fedsuite.errors import InputError
from tests.cdl_runs import config_of, settings_from
from tests.harness import arrays_in, recorded

HEAD = ("trunk.head.weight", "trunk.head.bias")
OWN: dict[str, Any] = {"share": "!trunk.head", "num_rounds": 2, "checkpoint_every": 1}


@pytest.mark.parametrize("scenario", ["fedavg", "ring", "local"])
def test_heads_stay_with_their_silos(
    cache: Path, tmp_path: Path, undrawn: None, scenario: str
) -> None:
    """Their names are in no message; the silos' heads differ, and all else of a star's silos is one model."""
    recorder = recorded(config_of(cache, tmp_path, "own", scenario=scenario, **OWN))
    named = {name for m in (*recorder.sent, *recorder.received) for name in arrays_in(m)}
    assert named and not [n for n in named if n.endswith(HEAD)]
    files = sorted((tmp_path / "own" / "clients").glob("*/round-000002.safetensors"))
    kept = [under_prefix(load_file(f), "backbone.") for f in files]
    assert len(kept) == 4 and all(set(k) == set(HEAD) for k in kept)
    heads = {k["trunk.head.weight"].tobytes() for k in kept}
    assert len(heads) == 4
    mixed = under_prefix(load_file(tmp_path / "own" / "model.safetensors"), "silos.")
    assert mixed and not set(HEAD) & set(mixed)
    alike = all(np.array_equal(v[0], row) for v in mixed.values() for row in v)
    assert alike == (scenario == "fedavg")


def test_all_shared_and_no_share_are_the_same_names(cache: Path, tmp_path: Path) -> None:
    config = settings_from(config_of(cache, tmp_path, "all"))
    assert not names_of(initial_network(config), config).local


@pytest.mark.parametrize(
    ("share", "told"),
    [
        ("!head", "no array is named .head"),
        ("!trunk, !stem", "leaves nothing to be shared"),
    ],
)
def test_shares_that_fit_no_network_are_refused(
    cache: Path, tmp_path: Path, share: str, told: str
) -> None:
    with pytest.raises(InputError, match=f"federation.share: {told}") as refused:
        recorded(config_of(cache, tmp_path, "bad", share=share))
    assert "\n" not in str(refused.value) and not (tmp_path / "bad" / "history.jsonl").exists()
