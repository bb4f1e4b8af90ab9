"""Published sizes on other view features: the shipped experiments name them, and the parameters count out."""

import tomllib
from pathlib import Path

import pytest
import torch

from fedsuite.vln.model.agent import AgentSizes, build_agent
from simulations.experiments.plan import plan_experiment
from simulations.experiments.request import Request

TOMLS = Path(__file__).parents[3] / "simulations" / "fedvln"
V_WORDS = 992
# F -> parameters of the agent as released, with its dead layers
AGENTS = {2048: 13_248_065, 512: 6_956_609, 640: 7_480_897, 1024: 9_053_761}
SPEAKER_ENCODERS = {2048: 9_052_160, 512: 4_333_568, 640: 4_726_784, 1024: 5_906_432}
SPEAKER_DECODER = 3_192_033


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("feature", AGENTS)
def test_agents(feature):
    with torch.device("meta"):
        agent = build_agent(AgentSizes(V_WORDS, feature, dead_layers=True), 0)
    assert parameters(agent) == AGENTS[feature]


@pytest.mark.parametrize("feature", SPEAKER_ENCODERS)
def test_speakers(feature):
    from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker

    with torch.device("meta"):
        speaker = build_speaker(SpeakerSizes(V_WORDS, feature, dead_layers=True), 0)
    assert parameters(speaker) == SPEAKER_ENCODERS[feature] + SPEAKER_DECODER


def test_the_clip_experiment_names_four_files_and_their_widths(tmp_path):
    experiment = plan_experiment(Request(TOMLS / "clip-vil.toml", [f"results-dir={tmp_path}"]))
    got = {
        label: (Path(p.settings.data.features).name, p.settings.data.feature_size)
        for label, p in experiment.plans.items()
    }
    assert got == {
        "vit-b-32": ("CLIP-ViT-B-32-views.tsv", 512),
        "rn101": ("CLIP-ResNet-101-views.tsv", 512),
        "rn50x4": ("CLIP-ResNet-50x4-views.tsv", 640),
        "rn50": ("CLIP-ResNet-50-views.tsv", 1024),
    }


@pytest.mark.parametrize(
    ("toml", "local_steps", "instructions"),
    [
        ("r2r-envdrop.toml", 80_000, 14_039),
        ("clip-vil.toml", 150_000, 14_039),
        ("rxr-envdrop.toml", 350_000, 26_460),
        ("rxr-clip-vit.toml", 400_000, 26_460),
    ],
)
def test_rounds_spend_the_published_budget(toml, local_steps, instructions):
    """Rounds are the least whose mean number of local steps reaches the budget."""
    keys = tomllib.loads((TOMLS / toml).read_text())
    per_round = (
        keys["federation"]["local-epochs"]
        * instructions
        * keys["federation"]["participation-rate"]
        / 64
    )
    assert (keys["num-rounds"] - 1) * per_round < local_steps <= keys["num-rounds"] * per_round
    assert keys["objective"]["batch-size"] == 64


@pytest.mark.parametrize("toml", ["rxr-envdrop.toml", "rxr-clip-vit.toml"])
def test_rxr_configurations(toml):
    data = tomllib.loads((TOMLS / toml).read_text())["data"]
    assert (data["dataset"], data["language"], data["max-instruction-length"]) == ("rxr", "en", 160)
    assert data["feature-size"] == (2048 if "envdrop" in toml else 512)
