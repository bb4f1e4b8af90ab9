"""Training and scoring a speaker."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedsuite.arrays import fingerprint, module_arrays
from fedsuite.averaging.merging import merged_metrics
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, load_house, load_vocabulary, make_episodes
from fedsuite.vln.data.instructions import EOS, Vocabulary, tokenize
from fedsuite.vln.data.path_views import path_views
from fedsuite.vln.data.sources import prepare_sources
from fedsuite.vln.evaluation.bleu import bleu_counts
from fedsuite.vln.metrics import SPEAKER_METRICS
from fedsuite.vln.model.describing import describe
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.model.speaker import SpeakerSizes, build_speaker
from fedsuite.vln.training.speaker_learner import (
    score_speaker,
    speak_all,
    train_speaker,
)
from tests.harness import changed, decoded

CONFIG = changed(
    FedVLNConfig(),
    batch_size=4,
    learning_rate=1e-2,
    evaluation_batch_size=4,
    max_generated_length=12,
)


@pytest.fixture
def vocabulary(prepared) -> Vocabulary:
    return load_vocabulary(prepared.houses_dir)


def speaker_for(house: House, words: int, hidden: int = 16):
    sizes = SpeakerSizes(words, house.views.shape[-1], angle=8, hidden=hidden, word=8)
    return build_speaker(sizes, seed=0)


def visit(house, config=CONFIG, steps=3, round=1, partition=0):
    speaker = speaker_for(house, 30)
    optimizer = torch.optim.Adam(speaker.parameters(), config.objective.learning_rate)
    world, samples = join_houses([house]), house.samples["train"]
    report = train_speaker(speaker, optimizer, world, samples, config, steps, round, partition)
    return speaker, optimizer, report


def test_a_visit_is_a_function_of_seed_round_and_partition(oak):
    def run(**changes):
        config = changed(CONFIG, seed=changes.pop("seed", 0))
        return fingerprint(module_arrays(visit(oak, config, **changes)[0]))

    assert run() == run()
    assert len({run(), run(seed=1), run(round=2), run(partition=1)}) == 4


def test_one_step_is_adam_on_the_mean_over_words(oak):
    """Batch of all samples, no dropout: loss, clipped gradients and weights by hand."""
    config = changed(CONFIG, batch_size=99, dropout=0.0, feature_dropout=0.0, gradient_clip=0.05)
    trained, _, report = visit(oak, config, steps=1)
    plain, world, samples = speaker_for(oak, 30), join_houses([oak]), oak.samples["train"]
    logits, target = plain(
        path_views(world, samples), make_episodes(samples, world).tokens, NO_DROPOUT
    )
    loss = cross_entropy(logits, target)
    loss.backward()
    assert report.steps == 1 and report.loss == pytest.approx(loss.item(), rel=1e-5)
    norms = []
    for module in (plain.encoder, plain.decoder):
        norm = math.sqrt(sum(float(p.grad.square().sum()) for p in module.parameters()))
        norms.append(norm)
        for p in module.parameters():
            p.grad *= min(1.0, 0.05 / norm)
    assert max(norms) > 0.05, "the clip should matter"
    assert report.gradient_norm == pytest.approx(math.hypot(*norms), rel=1e-4)
    torch.optim.Adam(plain.parameters(), lr=1e-2).step()
    for (name, a), b in zip(trained.named_parameters(), plain.parameters(), strict=True):
        sure = (
            b.grad.abs() > 1e-6
        )  # Adam's first step is lr long, whatever the gradient's last digits
        torch.testing.assert_close(a[sure], b[sure], rtol=1e-3, atol=1e-4, msg=name)


def test_dropout_of_both_kinds_is_used(oak):
    without = changed(CONFIG, dropout=0.0, feature_dropout=0.0)
    losses = {
        visit(oak, changed(without, **change))[2].loss
        for change in ({}, {"dropout": 0.5}, {"feature_dropout": 0.5})
    }
    assert len(losses) == 3


def test_no_steps_change_nothing(oak):
    speaker, _, report = visit(oak, steps=0)
    assert (report.steps, report.loss, report.gradient_norm) == (0, 0.0, 0.0)
    assert fingerprint(module_arrays(speaker)) == fingerprint(module_arrays(speaker_for(oak, 30)))


def test_every_path_is_described_once_with_all_its_instructions(oak, vocabulary):
    world, samples = join_houses([oak]), oak.samples["train"]
    speaker = speaker_for(oak, len(vocabulary))
    spoken = speak_all(speaker, world, samples, vocabulary, CONFIG)
    assert len(spoken) == len(samples) // 3 == 6
    for number, path in enumerate(spoken):
        own = samples[3 * number : 3 * number + 3]
        assert {s.instr_id.split("_")[0] for s in own} == {str(path.path_id)} and path.scan == "oak"
        assert path.references == tuple(tuple(tokenize(s.text)) for s in own)
        tokens = describe(speaker, world, own[:1], CONFIG.objective.max_generated_length)[0]
        assert " ".join(path.written) == decoded(vocabulary.words, tokens)
    shuffled = [samples[i] for i in np.random.default_rng(0).permutation(len(samples))]
    again = speak_all(speaker, world, shuffled, vocabulary, CONFIG)
    assert {(p.path_id, p.written, frozenset(p.references)) for p in again} == {
        (p.path_id, p.written, frozenset(p.references)) for p in spoken
    }


def test_sums_of_a_score_by_hand_and_over_two_houses(oak, elm, world, vocabulary):
    speaker = speaker_for(oak, len(vocabulary))
    parts = []
    for house in (oak, elm):
        samples, alone = house.samples["train"], join_houses([house])
        sums = score_speaker(speaker, alone, samples, vocabulary, CONFIG)
        loss = right = words = 0
        for s in samples:
            tokens = torch.from_numpy(s.tokens)[None]
            with torch.no_grad():
                logits, _ = speaker(path_views(alone, [s]), tokens, NO_DROPOUT)
            loss += float(-logits.log_softmax(1)[torch.arange(len(logits)), tokens[0, 1:]].sum())
            right += int((logits.argmax(1) == tokens[0, 1:]).sum())
            words += len(s.tokens) - 1
        assert sums["cross-entropy"] == pytest.approx(loss, rel=1e-5)
        assert (sums["right-words"], sums["target-words"]) == (right, words)
        assert sums["count"] == len(samples) // 3
        spoken = speak_all(speaker, alone, samples, vocabulary, CONFIG)
        counts = bleu_counts([p.written for p in spoken], [p.references for p in spoken])
        assert counts.items() <= sums.items()
        assert score_speaker(speaker, alone, samples, vocabulary, CONFIG, spoken) == sums
        parts.append(sums)
    both = oak.samples["train"] + elm.samples["train"]
    whole = score_speaker(speaker, world, both, vocabulary, CONFIG)
    assert whole == pytest.approx({k: parts[0][k] + parts[1][k] for k in parts[0]}, rel=1e-5)
    scores = merged_metrics(SPEAKER_METRICS, [whole])
    assert scores["xe-loss"] == pytest.approx(whole["cross-entropy"] / whole["target-words"])
    assert scores["word-accuracy"] == whole["right-words"] / whole["target-words"]
    assert list(scores) == [
        *(f"bleu-{n}" for n in range(1, 5)),
        "bleu-4-published",
        "xe-loss",
        "word-accuracy",
        "count",
    ]


def test_scores_do_not_depend_on_the_batch_size(oak, vocabulary):
    speaker, world = speaker_for(oak, len(vocabulary)), join_houses([oak])
    one, many = (
        score_speaker(
            speaker,
            world,
            oak.samples["train"],
            vocabulary,
            changed(CONFIG, evaluation_batch_size=size),
        )
        for size in (1, 50)
    )
    assert one == pytest.approx(many, rel=1e-5)


def test_a_split_without_paths_scores_nothing(oak, vocabulary):
    speaker, world = speaker_for(oak, len(vocabulary)), join_houses([oak])
    sums = score_speaker(speaker, world, [], vocabulary, CONFIG)
    assert not any(sums.values())
    assert not any(merged_metrics(SPEAKER_METRICS, [sums]).values())
    full = score_speaker(speaker, world, oak.samples["train"], vocabulary, CONFIG)
    assert sums.keys() == full.keys()


@pytest.fixture(scope="module")
def generated(cache) -> tuple[House, Vocabulary]:
    """One generated house with 20 training paths."""
    config = changed(
        FedVLNConfig(),
        cache_dir=str(cache),
        generated_seen_houses=1,
        generated_unseen_houses=1,
        generated_paths_per_house=20,
        generated_feature_size=16,
        min_word_count=1,
    )
    sources = prepare_sources(config)
    scan = sources.training_scans[0]
    house = load_house(sources.houses_dir, sources.connectivity_dir, sources.views_dir, scan, 80)
    return house, load_vocabulary(sources.houses_dir)


def unigram_cross_entropy(samples) -> float:
    """Nats per word of the best guess that knows how frequent words are and nothing else."""
    counts = Counter(int(i) for s in samples for i in s.tokens[1:])
    share = np.array(list(counts.values())) / counts.total()
    return float(-(share * np.log(share)).sum())


@pytest.mark.slow
def test_a_speaker_learns_the_words_and_the_paths_of_a_house(generated):
    """One short sentence per path: far better than word frequencies, and lost if the paths are exchanged."""
    house, vocabulary = generated
    world = join_houses([house])
    samples = [
        replace(
            s, tokens=np.append(s.tokens[:9], EOS), text=decoded(vocabulary.words, s.tokens[:9])
        )
        for s in house.samples["train"][::3]
    ]
    config = changed(CONFIG, batch_size=32, dropout=0.0, feature_dropout=0.0)
    speaker = speaker_for(house, len(vocabulary), hidden=96)
    adam = torch.optim.Adam(speaker.parameters(), 1e-2)
    train_speaker(speaker, adam, world, samples, config, 100, 1, 0)
    scores = merged_metrics(
        SPEAKER_METRICS, [score_speaker(speaker, world, samples, vocabulary, config)]
    )
    assert scores["xe-loss"] < 0.2 * unigram_cross_entropy(samples) and scores["bleu-4"] > 40
    paths = [s.path for s in samples]
    shown = [replace(s, path=p) for s, p in zip(samples, paths[3:] + paths[:3], strict=True)]
    others = merged_metrics(
        SPEAKER_METRICS, [score_speaker(speaker, world, shown, vocabulary, config)]
    )
    assert others["xe-loss"] > 2.5 * scores["xe-loss"]
    assert others["bleu-4"] < 0.5 * scores["bleu-4"]
