"""What does not go with messages that silos seal for each other: one line each, before anything is started."""

from collections.abc import Iterator

from fedsuite.driving.config import CDLConfig
from fedsuite.driving.federation_settings import POOLED, SERVER_SCENARIOS
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.privacy.sealing import ON
from fedsuite.settings.values import shown


def sealed_complaints(config: CDLConfig) -> Iterator[str]:
    """All that needs somebody beside the receiver to look at a silo's model."""
    own = config.federation
    if not own.sealed:
        return
    if own.scenario in (POOLED, *SERVER_SCENARIOS):
        yield (
            f"{ON}: {own.scenario} has a server that mixes, which sealed models cannot be shown; set federation.scenario to "
            f"one without, such as ring, or {ON} to false"
        )
    needed: dict[str, tuple[object, object]] = {
        "federation.silos-per-client": (own.silos_per_client, 1),
        "federation.mixings-per-round": (own.mixings_per_round, 1),
        "federation.codec": (own.codec, "none"),
        "sabotage.clients": (config.sabotage.clients, ""),
        "evaluation.cross-evaluation": (config.evaluation.cross_evaluation, False),
    }
    for key, (value, wanted) in needed.items():
        if value != wanted:
            yield (
                f"{ON}: goes with {key} = {shown(wanted)} only, not {shown(value)}, which needs single models outside of "
                "their silos; set one of the two anew"
            )
    if ":" in own.merge:
        yield (
            f"{ON}: federation.merge = {own.merge} may look at models of all silos, and a receiver has its neighbours'; "
            "choose mean, clipped or trimmed-mean"
        )
    optimizer = LOCAL_OPTIMIZERS[config.training.optimizer]
    for unfit, why in (
        (optimizer.rule, "has more to mix than models"),
        (optimizer.relays, "needs models under way, which the server keeps"),
    ):
        if unfit:
            name = config.training.optimizer
            yield f"{ON}: training.optimizer = {name} {why}; choose adam, sgd or nesterov"
