"""The server's half of a FedRL run: its strategy."""

from fedsuite.federation import RoundStrategy
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.roster.members import Roster
from strategies.two_party import TwoParty


def make_strategy(config: FedRLConfig, roster: Roster) -> RoundStrategy:
    """It opens no data."""
    return TwoParty(config, roster.fact("score", str))
