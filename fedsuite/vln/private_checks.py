"""Combinations of FedVLN settings with a section `privacy` that could not keep its promise: one line each."""

from collections.abc import Iterator

from fedsuite.averaging.privacy_settings import EXAMPLE
from fedsuite.privacy.complaints import privacy_complaints
from fedsuite.vln.config import FedVLNConfig


def in_privacy(c: FedVLNConfig) -> Iterator[str]:
    """Noise hides one house among those whose changes are added up, or one instruction of a house in every step."""
    own, key = c.federation, "privacy.unit"
    if c.privacy.unit == "none":
        return
    if c.privacy.unit == EXAMPLE:
        yield from _of_instructions(c)
        yield from privacy_complaints(c.privacy, own)
        return
    if own.method != "federated":
        yield f"{key}: client hides a house among others, but {own.method} merges none; set federation.method=federated"
    if own.aggregation == "sequential" or own.client_optimizer == "shared":
        which = "aggregation" if own.aggregation == "sequential" else "client-optimizer"
        yield (
            f"federation.{which}: {getattr(own, which.replace('-', '_'))} hands what one house learnt to the next one "
            "without noise; set aggregation=parallel and client-optimizer=kept or fresh"
        )
    yield from privacy_complaints(c.privacy, own)


def _of_instructions(c: FedVLNConfig) -> Iterator[str]:
    """What would let one instruction into the gradient of another, or into a message without noise."""
    key = "privacy.unit: example"
    if c.stage != "train":
        yield f"{key} is built for agents that learn from annotated instructions, not for stage {c.stage}; set stage=train"
    if c.objective.kind == "a2c":
        yield (
            f"objective.kind: a2c is a mean over the decisions of all episodes, of which {key} needs each by itself; choose "
            "imitation or none"
        )
    if c.federation.method == "local-only":
        yield f"{key} goes with a model that is shared; set federation.method=federated or centralised"
    if not c.agent.masked_pooling:
        yield (
            f"agent.masked-pooling: false pads to the longest instruction of a batch, which {key} hides; set it to true"
        )
    if c.ablations.shuffle_instructions:
        yield f"ablations.shuffle-instructions: one instruction more, which {key} hides, deals all anew; set it to false"
    if c.sabotage.triggers:
        yield f"sabotage.attack: backdoor is not built for training by {key}; choose another"
