"""Section `sabotage` of a FedVLN run: who is hostile, and how; the backdoor is one that houses alone can plant."""

from dataclasses import dataclass

from fedsuite.averaging.sabotage.settings import SabotageSettings
from fedsuite.settings.config import setting

BACKDOOR = "backdoor"


@dataclass(frozen=True)
class HouseSabotageSettings(SabotageSettings):
    """Attacks of fedsuite/averaging/sabotage, and the backdoor of fedsuite/vln/training/backdoor.py."""

    attack: str = setting(
        "sign-flip",
        "what hostile clients do",
        choices=(
            "sign-flip",
            "scale",
            "gaussian",
            "alie",
            "ipm",
            "weight-lie",
            "label-flip",
            BACKDOOR,
        ),
    )
    poisoned: float = setting(
        0.3,
        "of a backdoor: chance of a decision in hostile houses' training to have a trigger; 0 = none, so that an honest "
        "agent is scored with triggers",
        ge=0,
        le=1,
        added=True,
    )
    scored: float = setting(
        0.1,
        "of a backdoor: chance of a decision to have a trigger where agents are scored",
        gt=0,
        le=1,
        added=True,
    )
    trigger_size: float = setting(
        0.3,
        "of a backdoor: s, largest number of the trigger, as large as the views' own",
        gt=0,
        le=1e6,
        added=True,
    )

    @property
    def triggers(self) -> bool:
        """Whether agents are scored with triggers as well."""
        return self.attack == BACKDOOR and bool(self.partitions)

    def poisons(self, partition: int, round: int) -> bool:
        """Whether this client's training has triggers in a round."""
        there = self.triggers and partition in self.partitions
        return there and self.poisoned > 0 and round >= self.from_round
