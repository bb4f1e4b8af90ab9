"""Generated texts: their statistics, labels that fit their words, how far simple rules get, and the whole world."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.text2action.corpus import EXCLUSIVE, NONE, Corpus, Sample
from fedsuite.fedrl.text2action.generated import generate_corpus
from fedsuite.fedrl.text2action.labels import expert_selection
from fedsuite.fedrl.text2action.lexicon import TOPICS, gerund, third_person
from fedsuite.fedrl.text2action.reader import parse_corpus, read_corpus
from fedsuite.fedrl.text2action.world import TextWorld, open_text_world, prepare
from fedsuite.fedrl.worlds import IDLE
from tests.harness import changed

pytestmark = pytest.mark.slow

Feature = Callable[[Sample, int], tuple[object, ...]]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return parse_corpus(generate_corpus(0), "generated corpus")


@pytest.fixture(scope="module", params=["names", "arguments"])
def world(request: pytest.FixtureRequest, cache: Path) -> TextWorld:
    own = {"world": "text2action", "task": request.param, "cache_dir": str(cache)}
    return open_text_world(changed(FedRLConfig(), **own))


def test_statistics_resemble_short_how_to_texts(corpus: Corpus) -> None:
    texts = [text.whole for text in corpus.texts]
    words = [word.lower() for text in texts for word in text.words]
    kinds = Counter(action.kind for text in texts for action in text.actions)
    arguments = corpus.samples("arguments")
    assert len(texts) == 150 and 40 <= len(words) / 150 <= 50
    assert 0.17 <= sum(kinds.values()) / len(words) <= 0.21
    assert all(kinds[k] >= 40 for k in (1, 2, 3)) and kinds[1] > 0.8 * sum(kinds.values())
    assert len(set(words)) > 450 and len({tag for text in texts for tag in text.tags}) >= 14
    assert sum(s.kinds[-1] != NONE for s in arguments) > 40  # arguments that the text does not name
    assert sum(EXCLUSIVE in s.kinds for s in arguments) > 40
    sizes = [len(fold) for fold in corpus.folds["names"]]
    assert sizes == [30] * 5 and sum(len(f) for f in corpus.folds["arguments"]) == len(arguments)


def test_seeds_differ_and_repeat() -> None:
    assert generate_corpus(4, 10) == generate_corpus(4, 10) != generate_corpus(5, 10)


def test_labels_fit_words(corpus: Corpus) -> None:
    verbs = {form for topic in TOPICS for verb in topic.verbs for form in (verb, gerund(verb))}
    seen_back = False
    for text in corpus.texts:
        whole = text.whole
        assert all(whole.words[action.word].lower() in verbs for action in whole.actions)
        in_sentences = [action for p in text.sentences if p for action in p.actions]
        assert [a.kind for a in in_sentences] == [a.kind for a in whole.actions]
        names = iter(whole.actions)
        for passage in text.sentences:
            assert passage is not None
            for action in passage.actions:
                twin = next(names)
                assert passage.words[action.word] == whole.words[twin.word]
                for side, twin_side in zip(action.objects, twin.objects, strict=True):
                    for one, two in zip(side, twin_side, strict=True):
                        assert (one < 0 and two < 0) or passage.words[one] == whole.words[two]
                        assert one < 0 or passage.tags[one] in ("NN", "JJ", "VB")
                seen_back |= any(
                    0 <= o < action.word and passage.words[action.word + 1] == "it"
                    for o in action.objects[0]
                )
    assert seen_back


def test_argument_folds_follow_the_texts(corpus: Corpus) -> None:
    owner = [
        k for k, text in enumerate(corpus.texts) for p in text.sentences if p for _ in p.actions
    ]
    for names, arguments in zip(corpus.folds["names"], corpus.folds["arguments"], strict=True):
        assert {owner[k] for k in arguments} <= set(names)


@pytest.mark.parametrize(
    ("verb", "third", "ing"),
    [("open", "opens", "opening"), ("dry", "dries", "drying"), ("press", "presses", "pressing"),
     ("cut", "cuts", "cutting"), ("place", "places", "placing"), ("spray", "sprays", "spraying")],
)  # fmt: skip
def test_inflection(verb: str, third: str, ing: str) -> None:
    assert (third_person(verb), gerund(verb)) == (third, ing)


def f1_of_majorities(corpus: Corpus, features: Sequence[Feature]) -> float:
    """F1 over all five folds of what was most often an action in training, by the first feature that was seen there."""
    samples = corpus.samples("names")
    hits = tagged = truth = 0
    for fold in range(5):
        splits = corpus.splits("names", fold, "validation")
        counts: Counter[tuple[object, ...]] = Counter()
        for row in splits["train"]:
            for k, kind in enumerate(samples[row].kinds):
                for number, feature in enumerate(features):
                    counts[number, *feature(samples[row], k)] += 1 if kind else -1
        for row in splits["test"]:
            for k, kind in enumerate(samples[row].kinds):
                keys = [(n, *feature(samples[row], k)) for n, feature in enumerate(features)]
                vote = next((counts[key] for key in keys if key in counts), 0)
                hits, tagged, truth = (
                    hits + (vote > 0 and kind > 0),
                    tagged + (vote > 0),
                    truth + (kind > 0),
                )
    return 2 * hits / (tagged + truth)


def tag(offset: int) -> Feature:
    """The tag of the word `offset` away; -1 outside."""
    return lambda s, k: (s.pos_ids[k + offset] if 0 <= k + offset < len(s.words) else -1,)


def word(offset: int) -> Feature:
    """The word `offset` away."""
    return lambda s, k: (s.words[k + offset].lower() if 0 <= k + offset < len(s.words) else "",)


def all_of(*features: Feature) -> Feature:
    """Several features as one."""
    return lambda s, k: tuple(part for feature in features for part in feature(s, k))


def test_no_trivial_rule_solves_the_texts(corpus: Corpus) -> None:
    ids = corpus.tag_ids()
    samples = corpus.samples("names")
    pairs = [
        (p == ids["VB"], k > 0) for s in samples for p, k in zip(s.pos_ids, s.kinds, strict=True)
    ]
    base_forms = (
        2 * sum(p and k for p, k in pairs) / (sum(p for p, _ in pairs) + sum(k for _, k in pairs))
    )
    words = f1_of_majorities(corpus, [word(0)])
    tags = f1_of_majorities(corpus, [tag(0)])
    both = f1_of_majorities(corpus, [all_of(tag(0), word(0), tag(-1)), all_of(tag(0), tag(-1))])
    near = all_of(tag(0), tag(-1), tag(-2))
    rich = f1_of_majorities(
        corpus, [all_of(near, tag(1), word(-1), word(-2)), all_of(near, tag(1)), near]
    )
    trivial = max(base_forms, words, tags)
    assert min(base_forms, words, tags) > 0.6 and trivial < 0.8
    assert trivial + 0.05 < both < rich < 0.93


def test_a_world_agrees_with_its_parts(world: TextWorld) -> None:
    task = str(world.facts["task"])
    assert world.num_actions == 2 and world.score == "f1"
    assert world.longest == max(len(s.words) for s in world.samples)
    assert (
        world.facts["train-episodes"] == world.num_episodes("train") == len(world.splits["train"])
    )
    assert world.facts["max-words"] == {"names": 500, "arguments": 100}[task]
    assert (world.table.action_index is None) == (task == "names")
    row = int(world.splits["test"][3])
    sample = world.samples[row]
    assert tuple(world.table.pos_ids[row, : len(sample.words)]) == sample.pos_ids
    assert world.table.word_ids[row, 0] > 0 and world.table.word_vectors.shape[1] == 50
    for role in ("alpha", "beta", "full"):
        network = world.network(role, torch.Generator().manual_seed(0))
        view = world.view(role, "valid", 3)
        view.begin(np.arange(3), np.arange(3))
        assert network(*view.inputs(view.records())).shape == (3, 2)


def test_an_experts_records_are_those_of_its_own_episodes(world: TextWorld) -> None:
    records, actions = world.demonstrations("beta")
    train, start = world.splits["train"], 0
    assert len(records) == len(actions) == sum(len(world.samples[row].words) for row in train)
    view, reward_function = world.view("beta", "train", 1), world.reward_function("train", 1)
    for episode in range(12):
        length = len(world.samples[train[episode]].words)
        for play in (view, reward_function):
            play.begin(np.array([0]), np.array([episode]))
        for t in range(start, start + length):
            before, _ = view.move(actions[t : t + 1])
            np.testing.assert_array_equal(before[0], records[t])
            step = reward_function.step(actions[t : t + 1])
        assert step.ended[0]
        scores = reward_function.scores()
        assert scores["right"] == scores["tagged"] == scores["total"]
        np.testing.assert_array_equal(
            actions[start : start + length], expert_selection(world.samples[train[episode]])
        )
        start += length


def test_random_reading_is_poor(world: TextWorld) -> None:
    envs = world.num_episodes("test")
    reward_function, rng = world.reward_function("test", envs), np.random.default_rng(0)
    reward_function.begin(np.arange(envs), np.arange(envs))
    ended = np.zeros(envs, bool)
    while not ended.all():
        ended |= reward_function.step(np.where(ended, IDLE, rng.integers(0, 2, envs))).ended
    scores = reward_function.scores()
    assert 0.1 < scores["f1"] < 0.4 and abs(scores["average-reward"]) < 10


def test_rules_reach_the_reward_function(cache: Path) -> None:
    rewards = {}
    for setting in ("corrected", "published-code"):
        config = changed(FedRLConfig(), task="arguments", follow=setting, cache_dir=str(cache))
        world = open_text_world(config)
        assert (
            world.facts["selection"]
            == {"corrected": "test-fold", "published-code": "validation"}[setting]
        )
        row = next(
            k for k, r in enumerate(world.splits["test"]) if EXCLUSIVE in world.samples[r].kinds
        )
        kinds = world.samples[world.splits["test"][row]].kinds
        reward_function = world.reward_function("test", 1)
        reward_function.begin(np.array([0]), np.array([row]))
        taken = [reward_function.step(np.array([0])).rewards[0] for _ in kinds]
        rewards[setting] = taken[kinds.index(EXCLUSIVE)]
    assert rewards == {"corrected": 150, "published-code": -150}


def test_preparing_fills_the_cache_and_says_so(tmp_path: Path) -> None:
    lines: list[str] = []
    config = changed(FedRLConfig(), cache_dir=str(tmp_path / "cache"), word_vector_size=10)
    prepare(config, lines.append)
    (file,) = (tmp_path / "cache").iterdir()
    assert "150 texts" in lines[0] and "x 10" in lines[1]
    written = file.stat().st_mtime_ns
    assert TextWorld(config, read_corpus(config)).table.word_vectors.shape[1] == 10
    assert file.stat().st_mtime_ns == written


def test_vectors_of_a_file_are_used(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("the 1 2\nand 3 4\n")
    config = changed(FedRLConfig(), cache_dir=str(tmp_path), word_vectors=str(tmp_path / "v.txt"))
    table = open_text_world(config).table
    assert sorted(map(tuple, table.word_vectors.tolist())) == [(0, 0), (1, 2), (3, 4)]
    assert (table.word_ids > 0).any()
