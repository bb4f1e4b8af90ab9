"""Where in FedRL's protocol a sealed array belongs: who made it, and for which exchange or tick of a test.

strategies/two_party.py says what the parties exchange; of that, all but the shared MLP is sealed where a run says so. Sender
and receiver work these places out by themselves, each from the message that it got, so that whoever relays cannot put an
array anywhere else: one of another exchange, test, party or name does not open.
"""

from collections.abc import Mapping
from typing import Any

ALPHA = 0
CLEAR = "mlp."  # arrays that the relay keeps for the run's result
Message = Mapping[str, Any]


def made_at(message: Message, name: str) -> str:
    """The place of the array `name` that a party makes in answer to this message."""
    phase = str(message["phase"])
    if phase in ("look", "choose"):
        return _tested(phase, message, int(message["tick"]), name)
    exchange = int(message["exchange"])
    if name == "proposal":  # made with the steps of the exchange before, or by itself
        return f"proposal, exchange {exchange + (phase == 'learn')}"
    return f"{name} of {phase}, exchange {exchange}"


def taken_from(message: Message, name: str) -> tuple[int, str]:
    """Who made the array `name` that comes with this message, and its place."""
    phase = str(message["phase"])
    kind, _, party = name.partition(".")
    sender = int(party) if party else ALPHA
    if phase == "look":
        return sender, _tested("choose", message, int(message["tick"]) - 1, name)
    if phase == "choose":
        return sender, _tested("look", message, int(message["tick"]), kind)
    exchange = int(message["exchange"])
    if phase == "act":
        return sender, f"proposal, exchange {exchange}"
    if kind in ("actions", "episodes", "ids"):
        return sender, f"{kind} of act, exchange {exchange}"
    made = "learn-first" if sender == ALPHA else "answer"
    return sender, f"{kind} of {made}, exchange {exchange}"


def _tested(phase: str, message: Message, tick: int, name: str) -> str:
    return f"{name} of {phase}, test {message['number']}, tick {tick}"


def sealed_names(names: Mapping[str, object]) -> list[str]:
    """Those of a message's arrays that are sealed."""
    return [name for name in names if not name.startswith(CLEAR)]
