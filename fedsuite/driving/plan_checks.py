"""Whether a plan's rule, optimizer and clients fit its mixing matrices, and a roster its silos; each complaint is a line."""

from collections.abc import Sequence

import numpy as np

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.federation_settings import SERVER_SCENARIOS
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.optimizers.mixing_rules import largest_mode
from fedsuite.driving.topology import Network, Overlay
from fedsuite.driving.topology.mixing_matrix import MixingSchedule, closed_groups
from fedsuite.driving.topology.relay import is_tree
from fedsuite.driving.topology.robust_mixing import MIXING_RULES
from fedsuite.errors import InputError
from fedsuite.roster.members import Roster
from fedsuite.settings.values import chosen


def check_merge(config: CDLConfig, mixing: MixingSchedule) -> None:
    """Rules for hostile silos need weights >= 0, enough neighbours, and all mixing steps where they are applied."""
    own = config.federation
    chosen("federation.merge", own.merge, MIXING_RULES, ("before", "stacked", "a", "limits"))
    if own.merge == "mean":
        return
    if own.mixings_per_round > 1:
        raise InputError(
            f"federation.merge: {own.merge} is applied once a round; set federation.mixings-per-round=1"
        )
    if mixing.constant is None or mixing.constant.min() < 0:
        raise InputError(
            f"federation.merge: {own.merge} needs fixed weights >= 0; choose another scenario than matcha and another "
            "federation.mixing-matrix than fdla"
        )
    fewest = int(mixing.support.sum(axis=1).min()) - 1
    if own.merge == "trimmed-mean" and not 0 < 2 * own.tolerated <= fewest:
        raise InputError(
            f"federation.tolerated: {own.tolerated}, but trimmed-mean leaves out that many at either end, at least 1, and a "
            f"silo has {fewest} neighbours here; {fewest // 2} at most, or choose federation.merge=clipped"
        )


def check_optimizer(config: CDLConfig, mixing: MixingSchedule, labels: Sequence[str]) -> None:
    """Optimizers that look across mixings need columns of A that sum to 1, and know how many steps they average over."""
    own, name = config.federation, config.training.optimizer
    rule = LOCAL_OPTIMIZERS[name].rule
    if rule is None:
        return
    needs = f"{name} needs a mixing matrix whose columns sum to 1"
    if config.training.local_updates > 1 and not rule.any_updates:
        raise InputError(
            f"training.local-updates: {config.training.local_updates}, but {name} makes one update between two mixings; "
            "set it to 1, or choose training.optimizer=qg-momentum"
        )
    if own.data_weighted:
        raise InputError(
            f"federation.data-weighted: {needs}; set it to false, or choose training.optimizer=sgd"
        )
    if own.merge != "mean":
        raise InputError(
            f"federation.merge: {needs}, and {own.merge} gives none; set it to mean, or choose training.optimizer=sgd"
        )
    if mixing.constant is None:  # every matrix of MATCHA is symmetric
        return
    totals = mixing.constant.sum(axis=0)
    for silo in np.flatnonzero(np.abs(totals - 1.0) > 1e-6):
        raise InputError(
            f"federation.underlay-file: {needs}, but {labels[int(silo)]}'s sums to {totals[silo]:.6g}; "
            "correct the matrix, or choose training.optimizer=sgd"
        )
    mode = largest_mode(rule, mixing.constant, config.training.momentum)
    if mode > 1 + 1e-6:
        raise InputError(
            f"training.optimizer: {name} drives silos apart over {mixing.name} with {mixing.num_silos} silos (differences "
            f"grow by {mode:.3f} a step); choose gradient-tracking, or federation.scenario=mst"
        )


def check_relay(config: CDLConfig, network: Network, overlay: Overlay) -> None:
    """Relayed models come from all silos along a tree, each once, with equal weights."""
    own, name = config.federation, config.training.optimizer
    if own.scenario in SERVER_SCENARIOS or network.weights is not None or not is_tree(overlay):
        raise InputError(
            f"federation.scenario: {own.scenario}, but {name} relays models along a tree of silos; set it to mst or "
            "delta_mbst, or choose training.optimizer=sgd"
        )
    wanted = {"merge": (own.merge, "mean"), "mixing-matrix": (own.mixing_matrix, "auto")}
    for key, (found, only) in wanted.items():
        if found != only:
            raise InputError(
                f"federation.{key}: {found}, but {name} takes the mean of all silos' models and has no other matrix; set it "
                f"to {only}, or choose training.optimizer=sgd"
            )


def check_silos_of(
    config: CDLConfig, network: Network, mixing: MixingSchedule, silos_of: Sequence[Sequence[int]]
) -> None:
    """Several mixings in one message are exact only where no silo needs one that another client holds."""
    if config.federation.mixings_per_round == 1:
        return
    across = closed_groups(mixing.support, silos_of)
    if across:
        i, j = across[0]
        raise InputError(
            f"federation.mixings-per-round: {config.federation.mixings_per_round}, but {network.labels[i]} needs "
            f"{network.labels[j]}'s model after every mixing and another client holds it; set "
            "federation.silos-per-client=0 (one client for all) or federation.mixings-per-round=1"
        )


def check_roster(roster: Roster, count: int) -> None:
    """InputError unless its `count` silos are numbered, named and counted."""
    cure = "have it made anew where the data are"
    numbers: list[int] = []
    for member in roster.members:
        own = member.listed("silos", int)
        if not len(own) == len(member.names("names")) == len(member.listed("frames", int)):
            raise InputError(
                f"roster: {member.name}: silos, names and frames are not equally many; {cure}"
            )
        numbers += own
    if sorted(numbers) != [*range(count)]:
        raise InputError(f"roster: silos must be 0 to {count - 1}, each of one member; {cure}")
