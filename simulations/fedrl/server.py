"""The server's half of a FedRL run: its strategy."""

from fedsuite.federation import RoundStrategy
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.roster.members import Roster
from strategies.sealed_relay import SealedRelay
from strategies.two_party import TwoParty


def make_strategy(config: FedRLConfig, roster: Roster) -> RoundStrategy:
    """It opens no data."""
    relay = TwoParty(config, roster.fact("score", str))
    return SealedRelay(relay, len(roster)) if config.federation.sealed else relay
