"""Names that server and vehicles agree on: arrays of a message, metrics of a silo."""

from collections.abc import Mapping

OWN, AVERAGE = "own.", "average."  # evaluation: each silo's backbone [S, ...]; one model for all
SILOS = "silos."  # in the run's result: every silo's backbone [N, ...] beside the average network
MIX, PRESENT, BOXES, CLIPPED = "mix", "present", "boxes", "links-clipped"  # of sealed mixing
SEALED_MIXED = "sealed-mixed"  # folder of a silo's own backbones of a sealed run, by round
TERMS = ("regression-loss", "cd-plus", "cd-minus", "loss")  # of the objective, in training


def silo_metric(silo: int, name: str) -> str:
    """Key of one silo's metric in a reply."""
    return f"silo.{silo}.{name}"


def by_silo(metrics: Mapping[str, float]) -> dict[int, dict[str, float]]:
    """Metrics of a reply, silo by silo."""
    found: dict[int, dict[str, float]] = {}
    for key, value in metrics.items():
        head, _, rest = key.partition(".")
        number, _, name = rest.partition(".")
        if head == "silo":
            found.setdefault(int(number), {})[name] = value
    return found
