"""What the parties of a finished FedRL run tell one another beside what they mean to: an audit's attacks on it.

The parties are taken up as the run left them, and some more exchanges are played in memory, which the run never sees.

    window    whoever gets beta's Q-vectors (alpha, or the relay) trains a probe that reads the cells around beta's agent
    targets   whoever gets targets Y (beta, or the relay) tells rewards and ends of episodes: where an episode ends, Y = r

Q-vectors are clipped and noised as the run has it; where some leave without noise, as most runs' do in validations, they are
read, too. The probe needs pairs of vectors and windows; whoever has maps of the same kind and a copy of beta's network has
them, and so has a partner that once saw where beta stood. It is scored on maps that it has no pair of.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from fedsuite.arrays import module_arrays
from fedsuite.errors import InputError
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.gridworld.views import WindowView
from fedsuite.fedrl.learning.party import Party
from fedsuite.fedrl.learning.rewarded_party import RewardedParty
from fedsuite.fedrl.open_world import open_world
from fedsuite.privacy.attacks.clustered import Estimate, correlation, mean_auc, mean_of
from fedsuite.privacy.attacks.probe import STEPS, Reading, Seen, read_cells, split_by_group
from fedsuite.privacy.findings import Finding
from fedsuite.privacy.gaussian import clip_rows, gaussian_noise
from fedsuite.randomness import rng_for
from fedsuite.runs.folder import RunFolder
from fedsuite.runs.versions import Versions
from fedsuite.storage.progress import Progress

RESENDS = 16  # releases of one record, of which an attacker takes the mean
COPIES = (
    8  # releases of each record that the probe is trained on; a run releases each several times
)
MOST_RECORDS, MOST_EXCHANGES = 20_000, 60
QUICK_RECORDS, QUICK_EXCHANGES, QUICK_STEPS = 3_000, 12, 500
CLEAR = 0.05  # by how much the control has to be above chance


@dataclass(frozen=True, eq=False)
class Told:
    """What exchanges told beta, and what alpha kept: Y, r [n], whether the record is terminal [n], its id [n]."""

    targets: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray
    ids: np.ndarray


def probe_findings(
    config: FedRLConfig, folder: Path, seed: int, progress: Progress, quick: bool = False
) -> Iterator[Finding]:
    """Windows, from Q-vectors of a run of several parties."""
    if config.world.kind != "gridworld":
        progress("probe: left out, texts have no windows")
        return
    progress("a probe reads beta's windows off its Q-vectors")
    yield from _windows(open_parties(config, folder)[1][0], seed, quick)


def target_findings(
    config: FedRLConfig, folder: Path, seed: int, progress: Progress, quick: bool = False
) -> Iterator[Finding]:
    """Rewards and ends of episodes, from targets in a run of several parties."""
    progress("targets Y are read for rewards and ends of episodes")
    exchanges = QUICK_EXCHANGES if quick else MOST_EXCHANGES
    yield from _targets(*open_parties(config, folder), exchanges)


def open_parties(config: FedRLConfig, folder: Path) -> tuple[RewardedParty, list[Party]]:
    """The parties as the run in `folder` left them, the rewarded one first; InputError where their states are not here."""
    world, parties = open_world(config), list[Party]()
    for number, role in enumerate(config.federation.roles):
        own = RunFolder(folder).client(role)
        kept = Versions(own, role).load(sys.maxsize)
        if kept is None:
            raise InputError(
                f"{own}: no state of party {role} lies here, as parties of real nodes keep theirs to themselves; audit a "
                "run made in simulation"
            )
        kind = RewardedParty if number == 0 else Party
        party = kind(config, world, role, number, "cpu")  # type: ignore[arg-type]
        party.restore(kept[0])
        parties.append(party)
    alpha, *partners = parties
    assert isinstance(alpha, RewardedParty)
    return alpha, partners


# --- windows -----------------------------------------------------------------------------------------


def windows_of(party: Party, bound: float, seed: int, most: int = MOST_RECORDS) -> Seen:
    """Q-vectors of the records that a party holds, clipped to `bound` (0: not), without noise.

    Behind each the cells of the newest window but for its middle, where the agent stands; grouped by map.
    """
    memory, view = party.memory, party.view
    assert isinstance(view, WindowView)
    ids = np.arange(memory.oldest, memory.count)
    if len(ids) > most:
        ids = np.sort(rng_for(seed, "probed records").choice(ids, most, replace=False))
    (records,) = memory.gather(ids, "before")
    (windows,) = view.inputs(records)
    with torch.no_grad():
        q = clip_rows(party.network(windows), bound).numpy()
    cells = windows[:, -1].flatten(1).numpy()
    middle = cells.shape[1] // 2
    maps = records[:, -1] // view.ground.side**2
    return Seen(q, np.delete(cells, middle, axis=1), maps)


def probe(
    party: Party, bound: float, sigma: float, seed: int, quick: bool = False, resends: int = 1
) -> Reading:
    """What a probe reads off vectors so clipped and noised, means of `resends`; three quarters of the maps train it."""
    seen = windows_of(party, bound, seed, QUICK_RECORDS if quick else MOST_RECORDS)
    known, unseen = split_by_group(seen, seed, 0.75)
    rng, spread = rng_for(seed, "probed noise"), sigma / resends**0.5
    known, unseen = _noised(known, spread, COPIES, rng), _noised(unseen, spread, 1, rng)
    return read_cells(known, unseen, seed, QUICK_STEPS if quick else STEPS)


def _noised(seen: Seen, sigma: float, copies: int, rng: np.random.Generator) -> Seen:
    """Every vector `copies` times, each with noise of its own."""
    many = seen.part(np.tile(np.arange(len(seen)), copies if sigma else 1))
    return replace(many, releases=many.releases + gaussian_noise(rng, many.releases.shape, sigma))


def spared(config: FedRLConfig) -> list[str]:
    """Which Q-vectors leave a party without noise, though sigma is above 0, and why."""
    own, share = config.privacy, config.published.rules.noise_probability
    actions = "those that choose actions (privacy.behaviour-noise = false)"
    some = f"those of {1 - share:.0%} of the minibatches (published.noise-probability)"
    tests = f"those of validations and tests without noise (privacy.test-noise = {own.test_noise})"
    without = {
        actions: not own.behaviour_noise,
        some: share < 1,
        tests: own.test_noise != "noisy",
    }
    return [which for which, holds in without.items() if holds and own.noise_sigma]


def _windows(beta: Party, seed: int, quick: bool) -> Iterator[Finding]:
    bound, sigma = beta.config.privacy.q_clip, beta.config.privacy.noise_sigma
    bare = probe(beta, 0.0, 0.0, seed, quick)
    control = "the control reads vectors without clipping and noise"
    shown = f"clipped to {bound:g}" if bound else "not clipped"
    noised = f"{shown}, sigma = {sigma:g}; {control}"
    one, mean = (probe(beta, bound, sigma, seed, quick, resends) for resends in (1, RESENDS))
    ways = [("one Q-vector", noised, one), (f"the mean of {RESENDS} releases", noised, mean)]
    if without := spared(beta.config):
        found = probe(beta, bound, 0.0, seed, quick) if bound else bare
        note = f"{shown}; so leave {', '.join(without)}; {control}"
        ways.append(("one Q-vector that leaves without noise", note, found))
    for way, note, found in ways:
        target = f"beta's window, from {way}"
        yield _finding(
            "probe", target, "accuracy", found.accuracy, found.majority, bare.accuracy.value,
            found.n, note, bare.majority + CLEAR,
        )  # fmt: skip
        yield _finding(
            "probe", target, "AUC", found.auc, 0.5, bare.auc.value, found.n, note, 0.5 + CLEAR
        )


# --- targets -----------------------------------------------------------------------------------------


def play_on(alpha: RewardedParty, partners: list[Party], exchanges: int) -> Told:
    """Exchanges of the protocol after the run's last, in memory; what beta was told in them."""
    in_turn = alpha.rules.mlp_updates == "alternating"
    last = partners[-1] if in_turn else alpha
    assert last.mlp is not None
    mlp, told = module_arrays(last.mlp), list[list[np.ndarray]]()
    first = alpha.memory.count // alpha.schedule.envs
    for number in range(first, first + exchanges):
        proposals = [p.propose(number) for p in partners]
        actions, episodes, ids = alpha.act(number, proposals, mlp)
        answers = [p.answer(number, actions, episodes, ids) for p in partners]
        if not len(ids):
            continue
        q, q_next = ([a[i] for a in answers] for i in (0, 1))
        targets, block = alpha.learn_first(number, ids, q, q_next)
        before, mlp = mlp, alpha.shared_mlp()
        for party in partners:
            others = [b for i, b in enumerate([block, *q]) if i != party.partition]
            learnt = party.learn(number, ids, targets, others, mlp if in_turn else before)
            mlp = learnt if in_turn else mlp
        rewards, terminal = alpha.memory.gather(ids, "rewards", "terminals")
        told.append([x.ravel() for x in (targets, rewards, terminal, ids)])
    if not told:
        raise InputError("the run's replay is too small to learn from: no target Y was sent")
    return Told(*(np.concatenate(column) for column in zip(*told, strict=True)))


def _targets(alpha: RewardedParty, partners: list[Party], exchanges: int) -> Iterator[Finding]:
    told = play_on(alpha, partners, exchanges)
    ends, n = told.terminal, len(told.ids)
    exact = told.targets[ends] == told.rewards[ends]
    note = "targets have no noise; the control is told the rewards themselves"
    if ends.any():
        commonest = np.unique(told.rewards[ends], return_counts=True)[1].max() / ends.sum()
        yield _finding(
            "targets", "the reward of a step that ends an episode, taken as it is from Y", "share of rewards told exactly",
            mean_of(exact, told.ids[ends]), float(commonest), 1.0, int(ends.sum()),
            "Y = r where an episode ends; the control is r itself", 1.0,
        )  # fmt: skip
    signs = np.stack([told.targets, told.rewards], axis=1)
    own, control = (mean_auc(s[:, None] * _side(s, ends), ends[:, None], told.ids) for s in signs.T)
    yield _finding(
        "targets", "whether a step ends an episode, from Y", "AUC", own, 0.5, control.value, n, note, 0.5 + CLEAR
    )  # fmt: skip
    yield _finding(
        "targets", "the reward of any step, from Y", "correlation",
        correlation(told.targets, told.rewards, told.ids), 0.0, 1.0, n, note, 1.0,
    )  # fmt: skip


def _side(scores: np.ndarray, positive: np.ndarray) -> int:
    """-1 where positives lie below the others on the whole, as an attacker knows from the rules of the world."""
    both = positive.any() and not positive.all()
    return -1 if both and np.median(scores[positive]) < np.median(scores[~positive]) else 1


def _finding(
    attack: str, target: str, measure: str, found: Estimate, chance: float, control: float,
    n: int, note: str, least: float,
) -> Finding:  # fmt: skip
    return Finding(
        attack, "party", target, measure, found.value, chance, control, least, n, found.low, found.high, note
    )  # fmt: skip
