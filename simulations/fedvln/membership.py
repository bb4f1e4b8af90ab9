"""Whether an instruction, or a house, was trained on, from the final agent alone."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fedsuite.privacy.attacks.membership import (
    Separation,
    auc,
    halves,
    likelihood_ratios,
    means_by,
    separation,
    shadow_scores,
    true_positives,
)
from fedsuite.privacy.findings import Finding
from fedsuite.settings.devices import device_of
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, Sample, join_houses
from fedsuite.vln.environment import World
from fedsuite.vln.evaluation.log_odds import log_odds
from fedsuite.vln.training.shadows import by_heart, loaded, trained
from simulations.audits.audited import Audited
from simulations.fedvln.updates import houses_of

ATTACKER = "anybody with the model"
LEAST = {"AUC": 0.9, "TPR at 1 % FPR": 0.1}  # of the control
ENOUGH = 2000  # others, for a threshold at 1 % that is more than a few records
CONTROL_RECORDS = 48  # half of them learnt by heart


def membership(audited: Audited) -> Iterator[Finding]:
    """AUC and true positives, by threshold and LiRA, of records; AUC of houses by their records' mean."""
    config = audited.config
    try:
        agent = loaded(config, audited.roster, audited.model)
    except ValueError:
        audited.progress("membership: left out, the server has no whole agent to be attacked")
        return
    parts = range(len(audited.roster))
    houses = [(h, p in audited.trained) for p in parts for h in houses_of(audited, p)]
    world = join_houses([h for h, _ in houses], device_of(config.device, config.precision))
    samples, member, home = _records(audited, houses)
    scores = log_odds(agent, world, samples, config)
    known = ~np.isnan(scores)
    if not (member[known].any() and (home & ~member)[known].any()):
        audited.progress("membership: left out, no house has instructions of both kinds")
        return
    samples = [s for s, kept in zip(samples, known, strict=True) if kept]
    scores, member, home = scores[known], member[known], home[known]
    controls = _control(audited, world, [s for s, own in zip(samples, member, strict=True) if own])
    steps = audited.attack.membership.steps or max(1, audited.steps)
    shadows, inside = _shadows(audited, config, world, samples, steps, "shadows")
    ratios = likelihood_ratios(scores, shadows, inside)
    never = [np.where(own, np.nan, row) for own, row in zip(inside, shadows, strict=True)]
    scans = np.array([sample.scan for sample in samples])
    for name, found in (("loss threshold", scores), ("LiRA", ratios)):
        near = separation(found[home], member[home], audited.rng(f"membership, {name}"))
        unseen = never if name == "loss threshold" else []
        chance = [_of_known(row[home], member[home]) for row in unseen]
        yield from _of_records(name, near, chance, controls[name], _note(audited, name, steps))
        if (~home).any():
            chance = [_of_known(*_by_house(row, scans, member, home)) for row in unseen]
            houses_too = separation(
                *_by_house(found, scans, member, home), audited.rng(f"houses, {name}")
            )
            yield from _of_houses(name, houses_too, chance, controls[name])


def _records(
    audited: Audited, houses: Sequence[tuple[House, bool]]
) -> tuple[list[Sample], np.ndarray, np.ndarray]:
    """Instructions, whether each was trained on, and whether its house was; of too many a draw. houses: each with that."""
    rows: list[tuple[Sample, bool, bool]] = []
    for house, trains in houses:
        own = house.samples
        rows += [(s, trains, trains) for s in own.get("train", ())]
        split = "val_seen" if trains or own.get("train") else "val_unseen"
        rows += [(s, False, trains) for s in own.get(split, ())]
    most = audited.attack.membership.records
    if len(rows) > most:
        chosen = audited.rng("records").choice(len(rows), most, replace=False)
        rows = [rows[i] for i in sorted(chosen.tolist())]
    samples, member, home = zip(*rows, strict=True)
    return list(samples), np.array(member), np.array(home)


def _shadows(
    audited: Audited,
    config: FedVLNConfig,
    world: World,
    samples: Sequence[Sample],
    steps: int,
    purpose: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores [k, n] of all samples under shadows with halves of them, and who is in which [k, n]."""
    shadows = audited.attack.membership.shadows
    inside = halves(len(samples), shadows, audited.rng(purpose))
    seeds = audited.rng(f"{purpose}, seeds").integers(2**31, size=shadows).tolist()

    def train(records: np.ndarray, number: int) -> np.ndarray:
        audited.progress(f"membership, {purpose}", number + 1, shadows)
        own = [samples[i] for i in records.tolist()]
        agent = trained(config, audited.roster, world, own, steps, seeds[number])
        return log_odds(agent, world, samples, config)

    return shadow_scores(train, inside), inside


def _control(audited: Audited, world: World, samples: Sequence[Sample]) -> dict[str, Separation]:
    """Both attacks on an agent that has learnt half of a few records by heart; of every path there is one at most, since
    who knows one instruction of a path knows the path."""
    rng, config = audited.rng("control"), by_heart(audited.config)
    one_each = list({(s.scan, s.path): s for s in samples}.values())
    records = [one_each[i] for i in rng.permutation(len(one_each))[:CONTROL_RECORDS].tolist()]
    member = np.arange(len(records)) < len(records) // 2
    steps, seed = audited.attack.membership.control_steps, int(rng.integers(2**31))
    agent = trained(config, audited.roster, world, records[: len(records) // 2], steps, seed)
    scores = log_odds(agent, world, records, config)
    shadows = _shadows(audited, config, world, records, steps, "shadows of the control")
    ratios = likelihood_ratios(scores, *shadows)
    judged = partial(separation, member=member, rng=rng)
    return {"loss threshold": judged(scores), "LiRA": judged(ratios)}


def _of_known(scores: np.ndarray, member: np.ndarray) -> tuple[float, float]:
    """AUC and TPR on records that an agent was not trained on, the others being NaN: how much they differ anyway."""
    known = ~np.isnan(scores)
    groups = scores[known & member], scores[known & ~member]
    return (auc(*groups), true_positives(*groups)) if all(map(len, groups)) else (np.nan, np.nan)


def _by_house(
    scores: np.ndarray, scans: np.ndarray, member: np.ndarray, home: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of every house's records, of those that train its members', without NaN; and which houses train."""
    wanted = (member | ~home) & ~np.isnan(scores)
    means = means_by(scans[wanted].tolist(), scores[wanted])
    train = set(scans[home].tolist())
    return np.array([*means.values()]), np.array([scan in train for scan in means])


def _note(audited: Audited, name: str, steps: int) -> str:
    if name == "LiRA":
        return f"{audited.attack.membership.shadows} shadows of {steps} steps"
    return "chance: the same on agents that have seen none of these records"


def _mean(chance: Sequence[tuple[float, float]], which: int, else_: float) -> float:
    known = [pair[which] for pair in chance if not np.isnan(pair[which])]
    return float(np.mean(known)) if known else else_


def _of_records(
    name: str,
    near: Separation,
    chance: Sequence[tuple[float, float]],
    control: Separation,
    note: str,
) -> Iterator[Finding]:
    numbers = {
        "AUC": (near.auc, _mean(chance, 0, 0.5), control.auc, near.auc_interval),
        "TPR at 1 % FPR": (near.tpr, _mean(chance, 1, 0.01), control.tpr, near.tpr_interval),
    }
    for measure, (value, guessed, reached, (low, high)) in numbers.items():
        few = f"{near.others} others" if measure != "AUC" and near.others < ENOUGH else ""
        yield Finding(
            "membership", ATTACKER, f"an instruction, {name}", measure, value, guessed, reached, LEAST[measure],
            near.members + near.others, low, high, "; ".join(filter(None, (note, few))),
        )  # fmt: skip


def _of_houses(
    name: str, found: Separation, chance: Sequence[tuple[float, float]], control: Separation
) -> Iterator[Finding]:
    """Houses that trained, by what was trained on there, against unseen houses."""
    yield Finding(
        "membership", ATTACKER, f"a house, {name}", "AUC", found.auc, _mean(chance, 0, 0.5), control.auc, LEAST["AUC"],
        found.members + found.others, *found.auc_interval, f"{found.members} houses that train, {found.others} unseen",
    )  # fmt: skip
