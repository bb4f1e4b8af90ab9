"""A second EnvDrop, written plainly: every feature is built in full, nothing is shared or skipped.

It takes its weights from the agent under test and everything else (panoramas, candidates, angles, attention,
recurrence) step by step from the description in EnvDrop (Tan et al. 2019): features [36, F + A] and candidates
[K, F + A] with repeated angles, an LSTM run sentence by sentence, ordinary back-propagation, one episode at a time.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedsuite.vln.data.dataset import House, Sample
from fedsuite.vln.model.agent import Agent, AgentSizes, build_agent

STEP_RAD = math.pi / 6


@dataclass
class Decision:
    """One decision of one episode: logits [1 + K], h_t [H], places by row of the house, and the action taken."""

    logits: Tensor
    hidden: Tensor
    teacher: int
    action: int
    before: int
    after: int


@dataclass
class Episode:
    """All decisions, and V of one more look if the episode was cut off (else 0)."""

    decisions: list[Decision] = field(default_factory=list)
    bootstrap: float = 0.0


# Given the decision's number and logits and the teacher's action, the action to take.
Choice = Callable[[int, Tensor, int], int]


class PlainEnvDrop:
    """Runs `agent`'s weights in one house, without dropout."""

    def __init__(self, agent: Agent, house: House) -> None:
        self.agent, self.house = agent, house

    def angle(self, heading_rad: float, elevation_rad: float) -> Tensor:
        four = [
            math.sin(heading_rad),
            math.cos(heading_rad),
            math.sin(elevation_rad),
            math.cos(elevation_rad),
        ]
        return torch.tensor(four * (self.agent.sizes.angle // 4))

    def read(self, tokens: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Context [L, H], h~_0 [H], c_0 [H] of one sentence."""
        encoder = self.agent.encoder
        words = encoder.embedding.weight[torch.from_numpy(tokens)]
        context, (_, cell) = encoder.lstm(words[None])
        hidden = torch.tanh(encoder.to_hidden(context[0].max(0).values))
        return context[0], hidden, torch.cat([cell[1, 0], cell[0, 0]])

    def look(self, place: int, view: int) -> tuple[Tensor, Tensor, list[tuple[int, int]]]:
        """Panorama [36, F'], candidates with the stop vector [1 + K, F'], and (neighbour, view) per candidate."""
        graph = self.house.graph
        visual = torch.tensor(np.array(self.house.views[place]))
        camera = STEP_RAD * (view % 12)
        rows = [
            torch.cat(
                [visual[v], self.angle(STEP_RAD * (v % 12) - camera, STEP_RAD * (v // 12 - 1))]
            )
            for v in range(36)
        ]
        choices, moves = [torch.zeros_like(rows[0])], []
        for number in self.house.candidates.viewpoint[place]:
            if number < 0:
                continue
            dx, dy, dz = graph.position_m[number] - graph.position_m[place]
            heading, elevation = math.atan2(dx, dy), math.atan2(dz, math.hypot(dx, dy))
            column = round(heading / STEP_RAD) % 12
            level = min(max(round(elevation / STEP_RAD), -1), 1) + 1
            best = 12 * level + column
            choices.append(torch.cat([visual[best], self.angle(heading - camera, elevation)]))
            moves.append((int(number), best))
        return torch.stack(rows), torch.stack(choices), moves

    def decide(
        self, place: int, view: int, context: Tensor, state: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, list[tuple[int, int]]]:
        """logits [1 + K], h_t, c_t, h~_t, moves."""
        d = self.agent.decoder
        panorama, choices, moves = self.look(place, view)
        pose = self.angle(STEP_RAD * (view % 12), STEP_RAD * (view // 12 - 1))
        weights = torch.softmax(panorama @ (d.view_attention.query.weight @ state), 0)
        inputs = torch.cat([torch.tanh(d.action(pose)), weights @ panorama])
        gates = (
            d.cell.weight_ih @ inputs + d.cell.bias_ih + d.cell.weight_hh @ state + d.cell.bias_hh
        )
        i, f, g, o = gates.chunk(4)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        words = torch.softmax(context @ (d.language_attention.query.weight @ hidden), 0)
        mixed = torch.cat([words @ context, hidden])
        state = torch.tanh(d.language_attention.output.weight @ mixed)
        return choices @ (d.candidate_attention.query.weight @ state), hidden, cell, state, moves

    def value(self, hidden: Tensor) -> Tensor:
        critic = self.agent.critic
        return critic.value(F.relu(critic.inner(hidden)))[0]

    def episode(self, sample: Sample, choose: Choice, limit: int) -> Episode:
        """Walk one sample."""
        context, state, cell = self.read(sample.tokens)
        place, view, goal = sample.path[0], sample.start_view, sample.path[-1]
        out = Episode()
        for time in range(limit):
            logits, hidden, cell, state, moves = self.decide(place, view, context, state, cell)
            teacher = 0
            if place != goal:
                towards = self.house.graph.shortest_path(place, goal)[1]
                teacher = 1 + [m[0] for m in moves].index(towards)
            action = choose(time, logits.detach(), teacher)
            after, view = moves[action - 1] if action else (place, view)
            out.decisions.append(Decision(logits, hidden, teacher, action, place, after))
            place = after
            if action == 0:
                return out
        _, hidden, _, _, _ = self.decide(place, view, context, state, cell)
        out.bootstrap = self.value(hidden).item()
        return out


def imitation_loss(episodes: list[Episode]) -> Tensor:
    """Mean over episodes of the summed cross-entropy with the teacher."""
    per_decision = [-F.log_softmax(d.logits, 0)[d.teacher] for e in episodes for d in e.decisions]
    return torch.stack(per_decision).sum() / len(episodes)


def a2c_loss(
    plain: PlainEnvDrop,
    episodes: list[Episode],
    samples: list[Sample],
    discount: float,
    entropy_weight: float,
) -> Tensor:
    """Returns by hand, then the policy, value and entropy terms, decision by decision."""
    distance_m = plain.house.graph.distance_m
    terms = []
    for episode, sample in zip(episodes, samples, strict=True):
        goal, following = sample.path[-1], episode.bootstrap
        for d in reversed(episode.decisions):
            before, after = distance_m[d.before, goal], distance_m[d.after, goal]
            reward = (2 if before < 3 else -2) if d.action == 0 else np.sign(before - after)
            following = reward + discount * following
            value, log_p = plain.value(d.hidden), F.log_softmax(d.logits, 0)
            advantage = following - value
            terms.append(
                -log_p[d.action] * advantage.item()
                + 0.5 * advantage**2
                + entropy_weight * (log_p.exp() * log_p).sum()
            )
    return torch.stack(terms).mean()


@pytest.fixture
def small_agent(prepared) -> Agent:
    """An agent for the handmade houses."""
    sizes = AgentSizes(vocabulary=30, feature=8, angle=12, hidden=16, word=6, action=4)
    agent = build_agent(sizes, seed=5)
    with torch.no_grad():  # larger weights than the default ones, so that decisions differ
        for p in agent.parameters():
            p.mul_(2.0)
    return agent


@pytest.fixture
def plain(small_agent: Agent, oak: House) -> PlainEnvDrop:
    """The plain twin of `small_agent` in oak."""
    return PlainEnvDrop(small_agent, oak)


@pytest.fixture
def plain_losses() -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """imitation_loss, a2c_loss."""
    return imitation_loss, a2c_loss
