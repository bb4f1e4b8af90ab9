"""Who takes part in a FedVLN run, made where the houses are; and one client's houses, opened where it is."""

from collections.abc import Mapping, Sequence

from fedsuite.errors import InputError
from fedsuite.roster.members import CONTENT, Member, Roster
from fedsuite.roster.node_report import Part
from fedsuite.storage.progress import Progress
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.ablations import apply_ablations
from fedsuite.vln.data.dataset import House, load_house, load_vocabulary, read_prepared
from fedsuite.vln.data.instructions import Vocabulary, count_words
from fedsuite.vln.data.sources import Places, Sources, prepare_sources
from fedsuite.vln.message_keys import TEST, VALIDATION

ALL_HOUSES, ALL_UNSEEN = "all-training-houses", "all-unseen-houses"
SEEN, UNSEEN = "seen", "unseen"
TEST_ONLY = "test"  # walks for the leaderboard in the end, and nothing else


def make_roster(config: FedVLNConfig, sources: Sources) -> Roster:
    """All clients of a run; details of a member: its houses, their numbers, which randomness hangs on, and how many
    instructions each house has by split."""
    scans = [*sources.training_scans, *sources.unseen_scans, *sources.test_scans]
    numbers = {s: i for i, s in enumerate(scans)}
    samples = sources.manifest["samples"]

    def member(name: str, role: str, scans: Sequence[str]) -> Member:
        examples = sum(int(samples[s]["train"]) for s in scans)
        own = {"houses": list(scans), "numbers": [numbers[s] for s in scans]}
        return Member(name, role, examples, own | _counts([samples[s] for s in scans]))

    seen = [member(s, SEEN, [s]) for s in sources.training_scans]
    unseen = [member(s, UNSEEN, [s]) for s in sources.unseen_scans]
    if config.federation.method == "centralised":
        seen = [member(ALL_HOUSES, SEEN, sources.training_scans)]
    members = seen + unseen + [member(s, TEST_ONLY, [s]) for s in sources.test_scans]
    if config.stage == "pre-explore":
        if not sources.unseen_scans:
            raise InputError(
                "stage: pre-explore is for unseen houses, but val_unseen has none; give it paths of houses that have no "
                "training paths"
            )
        if config.federation.method == "centralised":
            members = [member(ALL_UNSEEN, UNSEEN, sources.unseen_scans)]
        elif not config.federation.seen_participation_rate:
            members = unseen
    words = load_vocabulary(sources.houses_dir).words
    facts: dict[str, object] = {"feature-size": sources.feature_size}
    # Folders that were prepared before it was told have none.
    if digest := sources.manifest.get("content"):
        facts[CONTENT] = {"connectivity/ and annotations/": digest}
    return Roster(tuple(members), facts, tuple(words))


def _counts(samples: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """Instructions of every house by split, without splits that none has; samples: of the manifest, by house."""
    splits = ("train", *VALIDATION, TEST)
    found = {split: [int(own.get(split, 0)) for own in samples] for split in splits}
    return {split: counts for split, counts in found.items() if any(counts)}


def part_of(config: FedVLNConfig, name: str, words: bool, progress: Progress) -> Part:
    """What the roster needs to know of the house `name`, converted and checked; words: also how often each is used."""
    sources = prepare_sources(config, progress, alone=True)
    scans = {
        SEEN: sources.training_scans, UNSEEN: sources.unseen_scans, TEST_ONLY: sources.test_scans
    }  # fmt: skip
    roles = [role for role, names in scans.items() if name in names]
    if not roles:
        there = ", ".join(s for names in scans.values() for s in names)
        raise InputError(
            f"data.dir: {config.data.dir or 'empty, so houses are generated'}; the annotations are of {there}; expected "
            f"those of {name}, which is what the node's file says it is"
        )
    counts = _counts([sources.manifest["samples"][name]])
    samples = read_prepared(sources.houses_dir, f"{name}/episodes.json").get("train", [])
    annotated = (i for i in samples if "augmented" not in i)
    uses = count_words(t for item in annotated for t in item["instructions"]) if words else None
    examples = sum(len(item["instructions"]) for item in samples)
    member = Member(name, roles[0], examples, {"houses": [name]} | counts)
    facts = {"feature-size": sources.feature_size}
    return Part("fedvln", member, facts, numbered="numbers", words=uses)


def prepare_own(config: FedVLNConfig, roster: Roster, member: Member) -> None:
    """Convert and check what lies with a member alone; InputError where that is not what the roster says."""
    sources = prepare_sources(config, alone=True)
    there = sources.manifest["samples"]
    if absent := [scan for scan in member.names("houses") if scan not in there]:
        raise InputError(
            f"data.dir: the roster has house {absent[0]} at {member.name}, but the annotations of "
            f"{config.data.dir or 'the generated houses'} are of {', '.join(there)}; put its own there"
        )
    if (width := roster.fact("feature-size", int)) != sources.feature_size:
        raise InputError(
            f"data.features: width {sources.feature_size} here, {width} on the roster; give the features that the run "
            "is made for"
        )


def open_house(
    config: FedVLNConfig,
    places: Places,
    scan: str,
    number: int,
    vocabulary: Vocabulary | None = None,
) -> House:
    """One house, of this number, as the run's ablations let the agent know it; vocabulary: None = the prepared folder's."""
    folders, own = (places.houses_dir, places.connectivity_dir, places.views_dir), config.data
    reading = (own.max_instruction_length, own.simulator, vocabulary)
    return apply_ablations(load_house(*folders, scan, *reading), config, number)
