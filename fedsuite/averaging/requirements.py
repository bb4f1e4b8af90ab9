"""What of the averaging settings cannot work: one line each, before anything is started."""

from collections.abc import Iterator, Sequence

from fedsuite.averaging.exchange import exchange_of
from fedsuite.averaging.local_methods import chosen_method
from fedsuite.averaging.merging import MERGED_WITH, MergeRule
from fedsuite.averaging.penalties import chosen_penalty
from fedsuite.averaging.robust import MERGE_RULES
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS, TAKES
from fedsuite.averaging.settings import CHOOSES_FROM, AveragingSettings, FedAvgSettings
from fedsuite.averaging.trust import TRUSTING
from fedsuite.errors import InputError
from fedsuite.settings.devices import check_device
from fedsuite.settings.values import check_callable, chosen, shown


def check_averaging(config: FedAvgSettings) -> None:
    """InputError for the first complaint; quick, reads no data, writes nothing. A system's `validate`."""
    for complaint in averaging_complaints(config.federation):
        raise InputError(complaint)
    exchange_of(config.federation)
    if config.federation.control_variates and not _plain_mean(config.federation):
        raise InputError(
            "federation.control-variates: they are a plain mean over clients; set merge=mean, update-bound=0"
        )
    check_device(config.device)


def averaging_complaints(
    own: AveragingSettings, participations: Sequence[str] = ("seeded",)
) -> Iterator[str]:
    """Of single values, and of what a merge rule withstands; InputError for a name that stands for nothing.

    participations: the names that federation.participation has beside module:NAME.
    """
    chosen(
        "federation.participation", own.participation, dict.fromkeys(participations), CHOOSES_FROM
    )
    chosen("federation.server-optimizer", own.server_optimizer, SERVER_OPTIMIZERS, TAKES)
    rule = chosen("federation.merge", own.merge, MERGE_RULES)
    if not isinstance(rule, MergeRule):
        yield f"federation.merge: {own.merge} is a {type(rule).__name__}, expected a MergeRule of fedsuite.averaging.merging"
    if not rule.takes_step:
        check_callable("federation.merge", own.merge, rule.combine, MERGED_WITH[:-1])
    check_callable("federation.merge", own.merge, rule.least, ("f",))
    chosen_penalty("federation.local-penalty", own.local_penalty, own.penalty_strength)
    key, everything = "federation.local-method", type(own)().share
    if chosen_method(key, own.local_method).needs_head and own.share == everything:
        yield (
            f"{key}: {own.local_method} trains a head that stays with the client; name what else is shared in "
            "federation.share"
        )
    if own.tolerated and own.merge in ("mean", "geometric-median", TRUSTING):
        yield f"federation.tolerated: {own.merge} has no use for it; set it to 0, or choose another federation.merge"
    if own.merge in ("trimmed-mean", "krum", "multi-krum", "bulyan", "pba") and not own.tolerated:
        yield (
            f"federation.tolerated: 0, so {own.merge} would withstand nobody; say how many hostile clients a round may have"
        )
    if own.merge == TRUSTING and (own.participation_rate < 1 or own.participation != "seeded"):
        yield (
            "federation.merge: fltrust needs the client of federation.trusted in every round; set "
            "federation.participation=seeded and federation.participation-rate=1"
        )
    if own.merge == TRUSTING and own.group_size > 1:
        yield "federation.merge: fltrust needs the trusted client's own change, not that of a chain; set group-size=1"
    yield from in_plain_sight(own)


def in_plain_sight(own: AveragingSettings) -> Iterator[str]:
    """What needs to see single changes, where a secure sum hides them."""
    needed: dict[str, tuple[object, object]] = {
        "aggregation": (getattr(own, "aggregation", "parallel"), "parallel"),
        "group-size": (own.group_size, 1),
        "merge": (own.merge, "mean"),
        "update-bound": (own.update_bound, 0.0),
        "codec": (own.codec, "none"),
        "houses-per-message": (getattr(own, "houses_per_message", 0), 0),
    }
    if not own.secure_sum:
        return
    for name, (value, wanted) in needed.items():
        if value != wanted:
            yield (
                f"federation.secure-sum: goes with federation.{name} = {shown(wanted)} only, not {shown(value)}, which "
                "needs single changes or another sum; set one of the two anew"
            )
    if own.server_optimizer == "fedexp":
        yield "federation.secure-sum: federation.server-optimizer = fedexp needs single changes; set one of the two anew"
    if getattr(own, "client_optimizer", "") == "shared":
        yield (
            "federation.secure-sum: federation.client-optimizer = shared hands single models on; set one of the two anew"
        )


def _plain_mean(own: AveragingSettings) -> bool:
    return own.merge == "mean" and not own.update_bound
