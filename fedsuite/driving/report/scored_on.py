"""What the errors of a CDL run are errors on: how many silos, of which roads or drives."""

from dataclasses import asdict

from fedsuite.driving.config import CDLConfig
from fedsuite.reports.page.same_data import fingerprint
from fedsuite.roster.members import CONTENT, Roster

# Settings that shape generated roads, the first ones first in what is said.
SHAPING = (
    "road_character", "train_frames", "test_frames", "label_skew", "appearance_skew", "concept_skew", "label_noise",
    "silo_sizes", "image_size", "channels", "generated_seed",
)  # fmt: skip
SPLITTING = ("test_split", "test_share", "fold", "dirichlet", "angle_scale")  # of recorded drives


def source_of(config: CDLConfig, roster: Roster | None) -> str:
    """Where frames come from, in a few words."""
    recorded = config.data.dir or (roster and roster.facts.get("source") == "drives")
    return "recorded drives" if recorded else "generated roads"


def num_silos(config: CDLConfig, roster: Roster | None) -> int:
    """That the data are made of, whoever holds them; 0 where neither roster nor settings say."""
    return int(roster.facts.get("silos", 0)) if roster else config.data.num_silos


def scored_on(config: CDLConfig, roster: Roster | None) -> dict[str, str]:
    """Facts in words. Who mixes with whom, and which client holds a silo, is no part of them."""
    count, source = num_silos(config, roster), source_of(config, roster)
    found = {"silos": f"{count} silos"} if count else {}
    found["source"] = source
    for name in SPLITTING if source == "recorded drives" else SHAPING:
        found[name] = f"{name.replace('_', ' ')} {getattr(config.drawn_data, name)}"
    if roster and source == "recorded drives":
        content = dict(roster.facts.get(CONTENT, {}))
        content.pop("federation.underlay-file", None)
        names = [asdict(m)["details"].get("names") for m in roster.members]
        found["content"] = f"drives {fingerprint(content or names)}"
    return found
