"""Whether a house learnt from an instruction in a visit, by the signs of its gradient.

A round is played twice: once every house learns from half of its instructions, and then from the other half, so that each is
in one visit and out of another, and a guess is right in half of all pairs, whatever the instructions are like. Halves are of
paths with all of their instructions, or of instructions alone, whose paths may then be in the visit by others.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from clients.house import HouseClient
from fedsuite.arrays import Arrays, load_arrays, module_arrays
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.privacy.attacks.clustered import mean_of
from fedsuite.privacy.attacks.membership import auc
from fedsuite.privacy.findings import Finding
from fedsuite.settings.config import with_keys
from fedsuite.settings.devices import device_of
from fedsuite.settings.values import Value
from fedsuite.vln.data.dataset import House, Sample, join_houses, make_episodes
from fedsuite.vln.exposure.recognised import scores_of
from fedsuite.vln.plan import initial_agent
from simulations.audits.audited import Audited
from simulations.audits.replayed import Visit
from simulations.fedvln.updates import houses_of, of_houses, played, undefended, updates

Name = tuple[str, str]  # of an instruction: its scan, and its id there
Half = Mapping[int, Collection[Name]]  # by member what it learns from
# A visit of one instruction in round 1: RMSprop's first step has the signs of the gradient.
ALONE: Mapping[str, Value] = {
    "federation.local-epochs": 1, "objective.batch-size": 1, "objective.kind": "none",
    "objective.teacher-weight": 1.0, "agent.dropout": 0.0, "agent.feature-dropout": 0.0,
}  # fmt: skip
CONTROLS, LEAST = 8, 0.95  # visits at least, and the AUC that the control has to reach
NOTE = "visits of half of the instructions; the attacker has all of them, their paths and the panoramas"


def recognition(audited: Audited) -> Iterator[Finding]:
    """AUC of a visit's instructions over others of its house, mean over visits."""
    changes = undefended(audited.config)
    ways = {"an instruction and its path": True, "an instruction": False}
    halves = {target: _halves(audited, paths) for target, paths in ways.items()}
    if not all(map(any, halves.values())):
        audited.progress("recognition: left out, no house has instructions of two paths")
        return
    control = _control(audited, changes)
    note = NOTE + "; undefended: in round 1" * bool(changes)
    for target, both in halves.items():
        whose, areas = _areas(audited, {}, both, False)
        plain = _areas(audited, changes, both, True)[1] if changes else areas
        if not len(areas) or not len(plain):
            audited.progress(f"recognition, {target}: left out, its round has no house with two")
            continue
        found = mean_of(areas, whose)
        yield Finding(
            "recognition", "server", f"{target}, from a visit", "AUC", found.value, 0.5, control, LEAST, len(areas),
            found.low, found.high, note, float(plain.mean()),
        )  # fmt: skip


def _halves(audited: Audited, paths: bool) -> tuple[Half, Half]:
    """Both halves of every member that has two paths, or two instructions."""
    one, other = dict[int, Collection[Name]](), dict[int, Collection[Name]]()
    what = "paths" if paths else "instructions"
    for partition in range(len(audited.roster)):
        units = dict[object, set[Name]]()
        for sample in _instructions(houses_of(audited, partition)):
            name = _name(sample)
            units.setdefault((sample.scan, sample.path) if paths else name, set()).add(name)
        if len(units) > 1:
            order = audited.rng(f"halves of {what}", partition).permutation(len(units))
            parts, half = [[*units.values()][i] for i in order], len(order) // 2
            one[partition] = set().union(*parts[:half])
            other[partition] = set().union(*parts[half:])
    return one, other


def _control(audited: Audited, changes: Mapping[str, Value]) -> float:
    """Of visits of one instruction each, which nothing defends; NaN where round 1 has no house with two instructions."""
    areas = list[float]()
    members = {
        p: own
        for p in range(len(audited.roster))
        if len(own := _instructions(houses_of(audited, p))) > 1
    }
    for turn in range(math.ceil(CONTROLS / len(members))):
        rng = audited.rng("recognised alone", turn)
        one = {p: {_name(own[rng.integers(len(own))])} for p, own in members.items()}
        areas += _tried(audited, {**changes, **ALONE}, one, True).values()
    return float(np.mean(areas)) if areas else math.nan


def _areas(
    audited: Audited, changes: Mapping[str, Value], both: tuple[Half, Half], first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Whose visits, and their AUCs; changes, first: as of `played`."""
    made = [pair for half in both for pair in _tried(audited, changes, half, first).items()]
    return np.array([member for member, _ in made]), np.array([area for _, area in made])


def _tried(
    audited: Audited, changes: Mapping[str, Value], kept: Half, first: bool
) -> dict[int, float]:
    """AUC by member, of a round in which members learn from what is `kept` alone."""

    def halved(client: HouseClient) -> None:
        own = kept.get(client.site.partition)
        if own is not None:
            houses = tuple(_only(house, own) for house in client.site.houses)
            client.site = replace(client.site, houses=houses)

    again = played(audited, changes, of_houses(halved), first)
    config, found = with_keys(audited.config, changes), dict[int, float]()
    made = updates(again, config, len(again.training))
    attacked = [(v, model) for v, model in made if v.client.partition in kept]
    attacked = attacked[: audited.attack.recognition.houses]
    for number, (visit, model) in enumerate(attacked, 1):
        audited.progress("recognition, visits", number, len(attacked))
        partition = visit.client.partition
        found[partition] = _area(audited, visit, model, kept[partition])
    return found


def _area(audited: Audited, visit: Visit, model: Arrays, kept: Collection[Name]) -> float:
    """Of one visit; model: what the server has of it."""
    config, partition = audited.config, visit.client.partition
    device = device_of(config.device, config.precision)
    agent = initial_agent(config, audited.roster)
    start = module_arrays(agent)
    load_arrays(agent, {k: visit.task.arrays.get(k, v) for k, v in start.items()})
    seen = {
        k: model.get(CONTROL + k, visit.task.arrays[k].astype(np.float64) - model[k])
        for k in start
        if k in model
    }
    houses = houses_of(audited, partition)
    world = join_houses(houses, device)
    groups = []
    for inside in (True, False):
        own = [s for s in _instructions(houses) if (_name(s) in kept) == inside]
        chosen = audited.rng("recognised", partition).permutation(len(own))
        few = sorted(chosen[: audited.attack.recognition.instructions].tolist())
        episodes = [make_episodes([own[i]], world) for i in few]
        groups.append(scores_of(agent.to(device), world, episodes, config, seen))
    return auc(*groups)


def _instructions(houses: Collection[House]) -> list[Sample]:
    return [s for h in houses for s in h.samples.get("train", ())]


def _only(house: House, kept: Collection[Name]) -> House:
    own = tuple(s for s in house.samples.get("train", ()) if _name(s) in kept)
    return replace(house, samples={**house.samples, "train": own})


def _name(sample: Sample) -> Name:
    return sample.scan, sample.instr_id
