"""One greedy walk, looked at closely: every decision with its probabilities, and which words the agent attended to.

It is the walk that evaluation makes (`fedsuite.vln.training.rollout.walk`), with one episode in the batch. The attention
is that of the decoder over the instruction (`Decoder.attention`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample, make_episodes
from fedsuite.vln.data.graph import HEADINGS, VIEW_STEP_RAD
from fedsuite.vln.data.instructions import BASE_WORDS, BOS_WORD, EOS, UNK, tokenize
from fedsuite.vln.environment import STOP, World
from fedsuite.vln.evaluation.houses import walk_metrics
from fedsuite.vln.model.agent import Agent
from fedsuite.vln.model.dropout import NO_DROPOUT
from fedsuite.vln.training import rollout

STOP_HERE = "stop"  # what stands first among the possible next viewpoints


@dataclass(frozen=True)
class Decision:
    """possible: STOP_HERE and the K neighbours in action order; probability [1 + K]; chosen: index of the most likely."""

    possible: tuple[str, ...]
    probability: np.ndarray
    chosen: int


@dataclass(frozen=True)
class InstructionWalk:
    """n viewpoints, the start first, after T decisions; T = n if the agent stopped, n - 1 if it was cut off.

    words: the L that the agent read, <BOS> and <EOS> with them; unknown: of these, all that are outside its vocabulary;
    left_out: how many more it did not read, for the instruction is too long; positions_m [n, 3], z up; heading_rad [n]: of
    the camera, 0 = +y, clockwise; attention [T, L], each row adds up to 1; reference: viewpoints of the annotated path,
    () where none is known; scores: the metrics of this walk against it (`fedsuite.vln.evaluation.metrics`).
    """

    scan: str
    instr_id: str
    words: tuple[str, ...]
    unknown: tuple[str, ...]
    left_out: int
    viewpoints: tuple[str, ...]
    positions_m: np.ndarray
    heading_rad: np.ndarray
    decisions: tuple[Decision, ...]
    attention: np.ndarray
    stopped: bool
    reference: tuple[str, ...]
    scores: Mapping[str, float]

    @property
    def lengths_m(self) -> np.ndarray:
        """Of the moves [n - 1]."""
        length_m: np.ndarray = np.linalg.norm(np.diff(self.positions_m, axis=0), axis=1)
        return length_m

    @property
    def summary(self) -> str:
        """How it ended, in one line."""
        moves = len(self.viewpoints) - 1
        ended = "stopped" if self.stopped else "cut off"
        text = f"{ended} after {moves} move{'s' * (moves != 1)}, {self.lengths_m.sum():.1f} m"
        if self.scores:
            ne, spl, ndtw = (self.scores[k] for k in ("ne", "spl", "ndtw"))
            text += f"; {ne:.1f} m from the goal, SPL {spl:.2f}, nDTW {ndtw:.2f}"
        return text


@torch.no_grad()
def follow(
    agent: Agent, world: World, house: House, sample: Sample, config: FedVLNConfig, annotated: bool
) -> InstructionWalk:
    """Walk as the agent, in evaluation mode, does. world: of this house alone; annotated: whether the sample's path is a
    reference to be scored against, or its start alone counts."""
    episodes = make_episodes([sample], world)
    limit = torch.full((1,), config.agent.max_actions, device=world.device)
    steps = rollout.walk(agent, world, episodes, rollout.greedy, limit).steps
    actions = [int(s.action) for s in steps]
    stopped, last = actions[-1] == STOP, steps[-1]
    rows, views = [int(s.before) for s in steps], [int(s.view) for s in steps]
    if not stopped:
        after, view = world.step(last.before, last.view, last.action)
        rows, views = [*rows, int(after)], [*views, int(view)]
    ids, scores = house.graph.viewpoint_ids, dict[str, float]()
    if annotated:
        metrics = walk_metrics(house, [sample], [rows], [views], config)
        scores = {k: float(v[0]) for k, v in metrics.items()}
    words, left_out = _words_of(sample)
    unknown = [w for w, t in zip(words, sample.tokens.tolist(), strict=True) if t == UNK]
    language = agent.encoder(episodes.tokens, episodes.length, NO_DROPOUT)[0]
    hidden = torch.cat([s.hidden for s in steps])
    attention = agent.decoder.attention(hidden, language.context[0])
    return InstructionWalk(
        scan=house.graph.scan,
        instr_id=sample.instr_id if annotated else "",
        words=words,
        unknown=tuple(dict.fromkeys(unknown)),
        left_out=left_out,
        viewpoints=tuple(ids[r] for r in rows),
        positions_m=house.graph.position_m[rows],
        heading_rad=np.array(views) % HEADINGS * VIEW_STEP_RAD,
        decisions=tuple(_decision(house, s) for s in steps),
        attention=attention.cpu().numpy(),
        stopped=stopped,
        reference=tuple(ids[r] for r in sample.path) if annotated else (),
        scores=scores,
    )


def _decision(house: House, step: rollout.Step) -> Decision:
    neighbours = house.candidates.viewpoint[int(step.before)]
    possible = [house.graph.viewpoint_ids[v] for v in neighbours if v >= 0]
    logits = step.logits[0, : 1 + len(possible)]
    probability = torch.softmax(logits, 0).cpu().numpy()
    return Decision((STOP_HERE, *possible), probability, int(step.action))


def _words_of(sample: Sample) -> tuple[tuple[str, ...], int]:
    """The words behind a sample's tokens, and how many of its text were left out."""
    read = [BOS_WORD, *tokenize(sample.text)]
    kept = len(sample.tokens) - 1
    return (*read[:kept], BASE_WORDS[EOS]), max(0, len(read) - kept)
