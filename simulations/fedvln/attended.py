"""What a house sees, from the change of its decoder's cell: after a plain step, a visit of one decision, and as sent."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from clients.house import HouseClient
from fedsuite.averaging.control_variates import CONTROL
from fedsuite.averaging.privacy_settings import CLIENT, EXAMPLE
from fedsuite.privacy.attacks.clustered import mean_of
from fedsuite.privacy.findings import Finding
from fedsuite.settings.config import with_keys
from fedsuite.settings.devices import device_of
from fedsuite.settings.values import Value
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.data.dataset import House, join_houses, make_episodes
from fedsuite.vln.exposure.cell_inputs import (
    BIAS,
    WEIGHT,
    Seen,
    Watch,
    plain_step,
    read_by,
    together,
)
from fedsuite.vln.plan import initial_agent
from fedsuite.vln.stages import exchange_of
from simulations.audits.audited import Audited
from simulations.fedvln.updates import houses_of, of_houses, played, undefended, updates

# A visit of one decision, which follows the teacher.
ONE: Mapping[str, Value] = {
    "federation.local-epochs": 1, "objective.batch-size": 1, "objective.kind": "none",
    "objective.teacher-weight": 1.0, "agent.max-actions": 1,
}  # fmt: skip
BARE: Mapping[str, Value] = {"agent.dropout": 0.0, "agent.feature-dropout": 0.0}
EXACT = 0.999  # the cosine that the control has to reach
GUESS = "the guess is the mean view of a house that does not train, or of another one"
Told = Callable[[Seen], np.ndarray]
DIVIDED: Mapping[str, Told] = {"": Seen.divided}


@dataclass(frozen=True)
class Tried:
    """What the server has of a member's visit or of a round's sum, and what somebody guesses who knows another house [F].

    whose: the member, or the number of the sum, by which intervals are made.
    """

    whose: int
    seen: Seen
    guess: np.ndarray


def views(audited: Audited) -> Iterator[Finding]:
    """Cosines with the nearest view that was read, means over visits."""
    config, changes = audited.config, undefended(audited.config)
    if read_by(initial_agent(config, audited.roster)) is None:
        audited.progress(f"views: left out, nothing is known of the decoder {config.agent.decoder}")
        return
    own = config.objective
    signs: Mapping[str, Told] = {", from its signs": Seen.signs}
    undone: Mapping[str, Told] = {
        ", RMSprop's step undone": lambda s: s.undone(own.learning_rate, own.bias_correction)
    }
    controls: Mapping[str, Told] = {", from its control variates": Seen.by_control}
    first = {**DIVIDED, **signs, **undone}
    if config.federation.control_variates:
        first |= controls
    control = _mean(_steps(audited, {**changes, **BARE}), Seen.divided)[0]
    for target, ways, made in (
        ("an attended view, from a plain step of one decision", DIVIDED, _steps),
        ("an attended view, from a first visit of one decision", first, _first_visits),
        ("one of the attended views, from a visit as sent", {**DIVIDED, **signs}, _as_sent),
    ):  # fmt: skip
        if made is _steps and _changed_on_the_way(config):
            continue  # no step of this run is as plain
        found = made(audited, {})
        plain = made(audited, changes) if changes else found
        for way, told in ways.items():
            value, low, high = _mean(found, told)
            guess = float(np.mean([t.seen.like(t.guess) for t in found or plain]))
            note = GUESS if _leaves(config) else "no array that reads views leaves a house"
            yield Finding(
                "views", "server", target + way, "cosine", value, guess, control, EXACT, len(found or plain), low, high,
                note, _mean(plain, told)[0],
            )  # fmt: skip


def _mean(tried: list[Tried], told: Told) -> tuple[float, float, float]:
    """Of the cosines, with its interval over members, or sums; 0 where nothing was to be attacked."""
    if not tried:
        return 0.0, 0.0, 0.0
    cosines = np.array([t.seen.like(told(t.seen)) for t in tried])
    found = mean_of(cosines, np.array([t.whose for t in tried]))
    return found.value, found.low, found.high


def _leaves(config: FedVLNConfig) -> bool:
    share = exchange_of(config).share
    return share.covers(WEIGHT) and share.covers(BIAS)


def _changed_on_the_way(config: FedVLNConfig) -> bool:
    """Whether a house's step is clipped, noised or coded before anybody else has it."""
    noised = config.privacy.unit == CLIENT and config.federation.secure_sum
    return noised or config.privacy.unit == EXAMPLE or config.federation.codec != "none"


def _guesses(audited: Audited) -> dict[int, np.ndarray]:
    """For every member that trains the mean view [F] of a house that does not, or else of the next one's first."""
    every = {p: houses_of(audited, p) for p in range(len(audited.roster))}
    train = [p for p, own in every.items() if any(h.samples.get("train") for h in own)]
    others = [p for p in every if p not in train] or [*train[1:], train[0]]
    means = [np.asarray(every[p][0].views).mean((0, 1)) for p in others[: len(train)]]
    return {p: means[i % len(means)] for i, p in enumerate(train)}


def _steps(audited: Audited, changes: Mapping[str, Value]) -> list[Tried]:
    """Plain steps of one decision each, of all members in turn; of secure sums, of all of them at once."""
    config = with_keys(audited.config, {**changes, **ONE})
    if not _leaves(config):
        return []
    guesses, agent, found = _guesses(audited), initial_agent(config, audited.roster), list[Tried]()
    device = device_of(config.device, config.precision)
    for turn in range(math.ceil(audited.attack.views.decisions / len(guesses))):
        made = []
        for partition in guesses:
            house = _with_one(audited, houses_of(audited, partition), turn)[0]
            world = join_houses([house], device)
            episodes = make_episodes(house.samples["train"], world)
            own = copy.deepcopy(agent).to(device)
            made.append(plain_step(own, world, episodes, config, turn))
        if config.federation.secure_sum:
            found.append(Tried(turn, together(made), next(iter(guesses.values()))))
        else:
            found += [Tried(p, seen, guesses[p]) for p, seen in zip(guesses, made, strict=True)]
    return found


def _with_one(audited: Audited, houses: tuple[House, ...], turn: int) -> tuple[House, ...]:
    """The first house that has training instructions, with one of them alone."""
    house = next(h for h in houses if h.samples.get("train"))
    own = house.samples["train"]
    chosen = int(audited.rng("attacked decisions", turn).integers(len(own)))
    return (replace(house, samples={**house.samples, "train": (own[chosen],)}),)


def _first_visits(audited: Audited, changes: Mapping[str, Value]) -> list[Tried]:
    """Visits of one decision in round 1, in which optimizers are fresh."""
    found, visits, turn = list[Tried](), 0, 0
    while visits < audited.attack.views.decisions:
        made, count = _visits(audited, {**changes, **ONE}, True, turn)
        if not made:
            break
        found, visits, turn = found + made, visits + count, turn + 1
    return found


def _as_sent(audited: Audited, changes: Mapping[str, Value]) -> list[Tried]:
    """The visits of a round as they are."""
    return _visits(audited, changes, bool(changes))[0]


def _visits(
    audited: Audited, changes: Mapping[str, Value], first: bool, only: int | None = None
) -> tuple[list[Tried], int]:
    """What the server has of a round's visits, and how many there were; only: in each visit one instruction alone, drawn by
    that number."""
    config = with_keys(audited.config, changes)
    if not _leaves(config):
        return [], 0
    watches: dict[int, Watch] = {}

    def watched(client: HouseClient) -> None:
        if client.site.samples("train"):
            if only is not None:
                houses = _with_one(audited, client.site.houses, only)
                client.site = replace(client.site, houses=houses)
            watch = watches.setdefault(client.site.partition, Watch())
            client.module = client.agent = watch.on(copy.deepcopy(client.agent))

    again = played(audited, changes, of_houses(watched), first)
    summed, number = config.federation.secure_sum, only or 0
    guesses, read = _guesses(audited), read_by(initial_agent(config, audited.roster))
    made = updates(again, config, len(again.training))
    found = []
    for visit, model in made[:1] if summed else made:
        p, before = visit.client.partition, visit.task.arrays
        own = watches.values() if summed else [watches[p]]
        seen = [rows for watch in own for rows in watch.rows]
        weight, bias = (model[k].astype(np.float64) - before[k] for k in (WEIGHT, BIAS))
        told = (
            (model[CONTROL + WEIGHT], model[CONTROL + BIAS]) if CONTROL + WEIGHT in model else None
        )
        if read is not None and seen:
            whose, views = number if summed else p, np.concatenate(seen)
            found.append(Tried(whose, Seen(weight, bias, read, views, told), guesses[p]))
    return found, len(made)
