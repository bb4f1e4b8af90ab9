"""Published sizes and cycle times; and the benchmark's bare loop computes what the app computes."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.cdl_round import BareLoop, settings
from fedsuite.arrays import module_arrays
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.data.sources import open_silos, prepare_sources
from fedsuite.driving.model.tensor_names import names_of
from fedsuite.driving.plan import initial_network, make_plan
from fedsuite.driving.report.outcome import trained_parameters
from fedsuite.driving.training.learner import Learner, Site
from fedsuite.driving.training.silo_networks import SiloNetworks
from fedsuite.settings.config import read_config
from simulations.cdl.system import SYSTEM
from simulations.experiments.variants import runs_of
from tests.harness import changed

FULL = Path(__file__).parents[3] / "simulations" / "cdl" / "full.toml"
PARAMETERS = {"cdl": 629_314, "dronet": 314_657, "fadnet": 341_980}


@pytest.mark.parametrize("variant", sorted(PARAMETERS))
def test_full_size(variant: str) -> None:
    runs = {r.label: r.table for r in runs_of(tomllib.loads(FULL.read_text()), str(FULL))}
    config = read_config(CDLConfig, runs[variant])
    SYSTEM.validate(config)
    plan = make_plan(config)
    assert (config.num_mixings, config.training.local_updates, config.training.batch_size) == (
        3600,
        1,
        32,
    )
    assert plan.silos_of == (tuple(range(11)),)
    assert trained_parameters(config) == PARAMETERS[variant]
    if variant != "fadnet":  # sending the backbone alone
        expected = 59.0352 if variant == "cdl" else 58.4952
        assert plan.message_bits == 10_091_936
        assert plan.cycle_time_ms == pytest.approx(expected, abs=0.001)


def test_sizes_and_cycle_time_are_the_published_ones() -> None:
    """629,314 trained parameters at 200 pixels; the ring over Gaia with the mean of three published computation times."""
    config = changed(
        CDLConfig(),
        image_size=200,
        scenario="ring",
        batch_norm="average",
        computation_time_ms=(1.2 + 5.5 + 7.7) / 3,
    )
    plan = make_plan(config)
    assert trained_parameters(config) == 629_314
    assert plan.message_bits == 10_091_936
    assert plan.cycle_time_ms == pytest.approx(62.64, abs=0.005)
    assert len(plan.silos_of) == 11 and plan.links_per_mixing == 11


@pytest.mark.parametrize("loss", ["kl", "none"])
def test_bare_loop_makes_the_same_steps(tmp_path: Path, loss: str) -> None:
    base = settings(tmp_path, 3, 10, 32, 4, loss)
    config = changed(base, dropout=0.0, train_frames=8)
    silos = open_silos(prepare_sources(config.data, 3), False)
    plan, network = make_plan(config), initial_network(config)
    names = names_of(network, config)
    networks = SiloNetworks(config, names, module_arrays(network), 3, "cpu")
    start = networks.backbone_arrays()
    site = Site((0, 1, 2), tuple(s.train for s in silos))
    # The mixing of the last step is the server's: the bare loop's third one mixes nothing.
    Learner(config, network, networks, site).train(0, 3, plan.mixing.matrix)
    bare = BareLoop(config, silos, plan.mixing.matrix(0))
    bare.mixing_step()
    bare.mixing_step()
    bare.a = np.eye(3)
    bare.mixing_step()
    mine = networks.backbone_arrays()
    for name in names.mixed:
        states = [s.backbone.state_dict()[name] for s in bare.silos]
        # Adam makes a step of full length out of gradients that are rounding alone (biases before a normalisation).
        close = np.isclose(mine[name], torch.stack(states).numpy(), rtol=1e-2, atol=2e-4)
        assert close.mean() > (0.97 if name.endswith("weight") else 0.0), name
    weights = [n for n in names.mixed if n.endswith("conv1.weight")]
    assert all((mine[n] != start[n]).mean() > 0.9 for n in weights)
