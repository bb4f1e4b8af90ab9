"""What the scores of a FedVLN run are scores of: which houses, how many, and whose instructions and views."""

from collections.abc import Mapping
from pathlib import Path

from fedsuite.reports.page.same_data import fingerprint
from fedsuite.roster.members import CONTENT, Roster
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.report.outcome import PRE_EXPLORE

GENERATED = "generated houses"
SHAPING = (
    "generated_paths_per_house",
    "generated_feature_size",
)  # of generated houses, beside their number


def source_of(config: FedVLNConfig, roster: Roster | None) -> str:
    """Where houses come from, in a few words; real nodes have their own, wherever the server's settings say nothing."""
    if config.data.dir:
        return f"{config.data.dataset} of data.dir"
    real = roster is not None and any(member.key for member in roster.members)
    return "houses of real nodes" if real else GENERATED


def scored_on(config: FedVLNConfig, roster: Roster | None) -> dict[str, str]:
    """Facts in words. Who holds which house is no part of them; in pre-exploration training houses are none either."""
    data, source = config.data, source_of(config, roster)
    found = {"houses": _counted(roster, config.stage == PRE_EXPLORE)} if roster else {}
    found["source"] = source
    if data.dataset == "rxr":
        found["language"] = f"language {data.language}"
    if source == GENERATED:
        found["seed"] = f"houses of seed {config.data_seed}"
        for name in SHAPING:
            found[name] = (
                f"{name.removeprefix('generated_').replace('_', ' ')} {getattr(data, name)}"
            )
        if roster is None:
            found["houses"] = (
                f"{data.generated_seen_houses} seen and {data.generated_unseen_houses} unseen houses"
            )
    if roster:
        found["views"] = f"views of {roster.facts.get('feature-size', 'unknown')} numbers"
        if data.features:
            found["features"] = f"features {Path(data.features).name}"
        found["content"] = f"data {fingerprint(_content(roster, config.stage == PRE_EXPLORE))}"
    return found  # fmt: skip


def _houses(roster: Roster, only_unseen: bool) -> dict[str, dict[str, list[int]]]:
    """role -> house -> instructions by split; houses for the leaderboard alone are scored by nobody here."""
    found: dict[str, dict[str, list[int]]] = {}
    for member in roster.members:
        if member.role == "test" or (only_unseen and member.role != "unseen"):
            continue
        splits = ("train", "val_seen", "val_unseen")
        counts = [member.details.get(split, []) for split in splits]
        for place, house in enumerate(member.details.get("houses", [member.name])):
            own = [int(c[place]) if place < len(c) else 0 for c in counts]
            found.setdefault(member.role, {})[str(house)] = own
    return found


def _counted(roster: Roster, only_unseen: bool) -> str:
    counts = {role: len(own) for role, own in _houses(roster, only_unseen).items()}
    return " and ".join(f"{n} {role}" for role, n in counts.items()) + " houses"


def _content(roster: Roster, only_unseen: bool) -> tuple[object, Mapping[str, object]]:
    return roster.facts.get(CONTENT), _houses(roster, only_unseen)
