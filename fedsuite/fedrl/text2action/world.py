"""Text2Action as a world: which texts, which fold, what each party sees of them.

alpha sees part-of-speech tags and has the labels, so rewards; beta sees the words (as vectors) and, for arguments, how far
a word is from the action; "full" sees all. Everybody sees which words have been selected.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from fedsuite.errors import InputError
from fedsuite.fedrl.config import DataSettings, FedRLConfig
from fedsuite.fedrl.metrics import metrics_of
from fedsuite.fedrl.text2action.corpus import MAX_WORDS, Corpus, Sample
from fedsuite.fedrl.text2action.document import digest_of
from fedsuite.fedrl.text2action.labels import expert_selection, label_table
from fedsuite.fedrl.text2action.reader import corpus_file, read_corpus
from fedsuite.fedrl.text2action.reward import RewardRule, TextReward
from fedsuite.fedrl.text2action.text_cnn import TextCNN
from fedsuite.fedrl.text2action.vectors import WordVectors, read_vectors, trained_or_cached
from fedsuite.fedrl.text2action.views import NUM_ACTIONS, TextTable, TextView, records_at
from fedsuite.fedrl.worlds import Role, Split, check_party
from fedsuite.storage.files import sha256_of
from fedsuite.storage.progress import Progress, silent
from fedsuite.storage.read_once import read_once

VECTOR_SEED = 0  # vectors belong to the corpus: every seed of an experiment has the same


class TextWorld:
    """A World (worlds.py) of one task on one corpus with one fold held out."""

    num_actions = NUM_ACTIONS
    score = "f1"

    def __init__(self, config: FedRLConfig, corpus: Corpus) -> None:
        self._config, self._corpus = config, corpus
        if corpus.own and corpus.own.task != config.world.task:
            raise InputError(
                f"{corpus.own.source}: was split for the task {corpus.own.task}, the run's (world.task) is "
                f"{config.world.task}; give the file that was split for it"
            )
        self._max_words = config.world.max_words or MAX_WORDS[config.world.task]
        self._selection = config.published.rules.selection
        self.samples = corpus.samples(config.world.task, self._max_words)
        self.splits = corpus.splits(config.world.task, config.data.fold, self._selection)
        self._labels = label_table(self.samples)
        self.longest = self._labels.longest
        self.table = text_table(
            self.samples, len(corpus.tag_ids()), word_vectors(config.data, corpus), self._max_words
        )

    @property
    def facts(self) -> Mapping[str, int | float | str]:
        return {
            "shared-texts": digest_of(self._corpus.shared(self._config.world.task)),
            "task": self._config.world.task,
            "fold": self._config.data.fold,
            "selection": self._selection,
            "max-words": self._max_words,
            "step-limit": self.longest,
            **{f"{split}-episodes": len(rows) for split, rows in self.splits.items()},
        }

    @property
    def content(self) -> dict[str, str]:
        """Digests of what whole files hold, which a resumed run is held to."""
        if self._corpus.own:
            return {}
        used = sha256_of(self.table.word_vectors.tobytes())
        vectors = {"data.word-vectors": used} if self._config.data.word_vectors else {}
        return {"texts": self._corpus.digest, **vectors}

    def check_party(self, role: str) -> None:
        """InputError if these texts are another party's own."""
        if own := self._corpus.own:
            check_party(own.party, role, own.source)

    @property
    def tag_names(self) -> tuple[str, ...]:
        """Part of speech by its id."""
        return tuple(self._corpus.tag_ids())

    def num_episodes(self, split: Split) -> int:
        return len(self.splits[split])

    def view(self, role: Role, split: Split, envs: int) -> TextView:
        self.check_party(role)
        return TextView(self.table, role, self.splits[split], envs)

    def reward_function(self, split: Split, envs: int) -> TextReward:
        self.check_party("alpha")
        config = self._config
        rule = RewardRule(
            config.world.text_reward,
            config.world.last_word_bonus,
            self._max_words,
            config.world.task == "names" or config.published.rules.exclusive_rewards == "full",
        )
        return TextReward(self._labels, self.splits[split], envs, rule, metrics_of(config).computed)

    def network(self, role: Role, generator: torch.Generator) -> torch.nn.Module:
        self.check_party(role)
        return TextCNN(
            self.table,
            role,
            filters=self._config.network.filters,
            tag_size=self._config.network.tag_size,
            generator=generator,
        )

    def demonstrations(self, role: Role) -> tuple[np.ndarray, np.ndarray]:
        """Records and actions of an expert that selects what the labels ask for; see `expert_selection`."""
        self.check_party("alpha")
        records, actions = [], []
        for row in self.splits["train"]:
            selected = expert_selection(self.samples[row])
            places = np.arange(len(selected))
            wide = np.zeros((len(selected), self.longest), bool)
            wide[:, : len(selected)] = selected
            records.append(records_at(self.table, np.full(len(selected), row), places, wide))
            actions.append(selected.astype(np.int64))
        return np.concatenate(records), np.concatenate(actions)

    def expert(self, split: Split, episodes: np.ndarray, tick: int) -> np.ndarray:
        """Decisions [n] of the expert at word `tick` of episodes [n]; neglect beyond the last word."""
        self.check_party("alpha")
        decisions = np.zeros(len(episodes), np.int64)
        for k, row in enumerate(self.splits[split][episodes]):
            selected = expert_selection(self.samples[row])
            decisions[k] = tick < len(selected) and selected[tick]
        return decisions


def text_table(
    samples: tuple[Sample, ...], num_tags: int, vectors: WordVectors, max_words: int
) -> TextTable:
    lengths = np.array([len(sample.words) for sample in samples], np.int64)
    pos_ids = np.zeros((len(samples), int(lengths.max())), np.int64)
    word_ids = np.zeros_like(pos_ids)
    for k, sample in enumerate(samples):
        pos_ids[k, : lengths[k]] = sample.pos_ids
        word_ids[k, : lengths[k]] = [vectors.row(word) for word in sample.words]
    places = np.array([sample.action for sample in samples], np.int64)
    return TextTable(
        pos_ids=pos_ids,
        word_ids=word_ids,
        lengths=lengths,
        action_index=places if (places >= 0).all() else None,
        max_words=max_words,
        word_vectors=vectors.vectors,
        num_tags=num_tags,
    )


def word_vectors(data: DataSettings, corpus: Corpus) -> WordVectors:
    """From the file that `data` names, else trained on the whole corpus (no labels) and kept in cache_dir.

    alpha's own texts have no words, and alpha sees none: it has row 0 alone.
    """
    if corpus.own and corpus.own.party == "alpha":
        return WordVectors({}, np.zeros((1, data.word_vector_size), np.float32))
    texts = [text.whole.words for text in corpus.texts]
    if not data.word_vectors:
        size, cache = data.word_vector_size, Path(data.cache_dir)
        return trained_or_cached(texts, size, VECTOR_SEED, corpus.digest, cache)
    return read_vectors(Path(data.word_vectors), corpus.vocabulary())


def _read_files(config: FedRLConfig) -> list[Path]:
    vectors = config.data.word_vectors
    return [file for file in (corpus_file(config), Path(vectors) if vectors else None) if file]


@read_once(_read_files, kept=2)
def open_text_world(config: FedRLConfig) -> TextWorld:
    """The world that `config` describes; opened once in a process, while its files are the same. Raises InputError."""
    return TextWorld(config, read_corpus(config))


def prepare(config: FedRLConfig, progress: Progress = silent) -> None:
    """Check the corpus and train its word vectors, so that parties only read. Raises InputError."""
    corpus = read_corpus(config)
    words = sum(len(text.whole.words) for text in corpus.texts)
    progress(f"{corpus.name}: {len(corpus.texts)} texts, {words:,} words")
    vectors = word_vectors(config.data, corpus)
    progress(f"word vectors: {vectors.vectors.shape[0] - 1} words x {vectors.vectors.shape[1]}")
