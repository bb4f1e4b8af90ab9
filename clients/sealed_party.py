"""A party of FedRL that seals what it makes for each of the others, and opens what they made for it.

In the clear go the shared MLP, which the relay keeps for the run's result, how many episodes have ended or go on, the
metrics of the rewarded party, and how large everything is. The relay can look at no value, so the receiver does: what does
not open, or holds NaN, infinity or ids and actions that there are none of, is refused with its sender's number.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.client import NumPyClient

from clients.numpy_client_app import NAMES, Config, Fitted, Parameters, named_arrays, named_reply
from clients.party import PartyClient
from clients.sealed_keys import SealedKeys
from fedsuite.arrays import Arrays, range_complaint
from fedsuite.fedrl.sealed_places import made_at, sealed_names, taken_from
from fedsuite.messages.instructions import Instruction
from fedsuite.privacy.sealing import STAGE, packed, sealed_bytes, unpacked

WHOLE = "value"  # an array is sealed by itself


class SealedParty(NumPyClient):
    """inner: the party itself."""

    def __init__(self, inner: PartyClient, keys: SealedKeys) -> None:
        self.inner, self.keys = inner, keys

    def instruction(self, kind: str, config: Mapping[str, Any]) -> Instruction:
        """What a message of this kind may say."""
        rounds = self.inner.site.config.num_rounds
        own = self.keys.instruction(config, rounds) if kind == "train" else None
        return own or self.inner.instruction(kind, config)

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        return self.inner.get_properties(config)

    def fit(self, parameters: Parameters, config: Config) -> Fitted:
        """Keys, or the part called `phase`, over what is opened."""
        if STAGE in config:
            return self.keys.fit(parameters, config)
        arrays = self._opened(named_arrays(parameters, config), config)
        asked = {**config, NAMES: "\n".join(arrays)}
        sent, examples, metrics = self.inner.fit([*arrays.values()], asked)
        made = named_arrays(sent, {NAMES: metrics.pop(NAMES)})
        return named_reply(self._sealed(made, config), examples, metrics)

    def _opened(self, arrays: Arrays, config: Config) -> Arrays:
        """What the message holds, checked as the relay would."""
        forms = self.inner.site.protocol.forms(config)
        for name in sealed_names(arrays):
            if name not in forms:
                self.keys.refuse(f"array {name}", "one more", f"{', '.join(forms) or 'none'}")
            own = {WHOLE: forms[name]}
            if arrays[name].shape != (expected := (sealed_bytes(own),)):
                self.keys.refuse(f"array {name}", arrays[name].shape, expected)
            sender, place = taken_from(config, name)
            message = self.keys.opened(sender, int(config["round"]), place, arrays[name])
            arrays[name] = unpacked(message, own)[WHOLE]
            if complaint := range_complaint({name: arrays[name]}):
                self.keys.refuse(f"{place} of member {sender}", complaint, "finite numbers")
        return arrays

    def _sealed(self, made: Arrays, config: Config) -> Arrays:
        """For every sealed array a table with a row for each party, the own one as well, which gets some back."""
        sealer, number = self.keys.sealer, int(config["round"])
        for name in sealed_names(made):
            place, message = made_at(config, name), packed({WHOLE: made[name]})
            boxes = [sealer.seal(p, number, place, message) for p in range(self.keys.members)]
            made[name] = np.stack([np.frombuffer(box, np.uint8) for box in boxes])
        return made
