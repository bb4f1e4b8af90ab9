"""Section `federation` of a FedVLN run: who trains, what is shared, how the server merges it.

Symbols are those of Zhou & Wang 2022, Algorithm 1; merge rules stand in fedsuite/averaging/robust.py.
"""

from dataclasses import dataclass, replace

from fedsuite.averaging.settings import AveragingSettings
from fedsuite.settings.config import setting


@dataclass(frozen=True)
class FederationSettings(AveragingSettings):
    """Who trains, what is shared, and what the server does beside averaging."""

    method: str = setting(
        "federated",
        "who trains: every house (federated), one agent on all houses, or every house for itself",
        choices=("federated", "centralised", "local-only"),
    )
    share: str = setting(
        "agent",
        "what of a house's model the server merges, the rest is every house's own: agent (all of it), language-encoder, or "
        "names of arrays and modules with commas between them; * stands for any characters, ! before a name leaves it out",
    )
    participation_rate: float = setting(
        0.2,
        "r, share of training houses per round; in pre-exploration of unseen houses",
        gt=0,
        le=1,
    )
    seen_participation_rate: float = setting(
        0.0,
        "share of seen houses per round that learn along on their own instructions in pre-exploration; 0 = none",
        ge=0,
        le=1,
    )
    participation: str = setting(
        "seeded",
        "who takes part: drawn from the seed, the lists of the official release (Python's generator, 10), or module:NAME of "
        "your own",
    )
    local_epochs: int = setting(5, "tau, passes over a house's samples per round", ge=1, le=10**6)
    server_learning_rate: float = setting(2.0, "eta, factor on the weighted mean delta", gt=0)
    aggregation: str = setting(
        "parallel",
        "parallel = FedAvg on deltas; sequential = each client starts from the model its predecessor moved",
        choices=("parallel", "sequential"),
    )
    houses_per_message: int = setting(
        0,
        "houses that one message is for, in simulation only: a worker trains them, in turn or side by side, and "
        "sends one sum of their weighted changes (a power of two), or a reply of each where the server needs that; 0 = a "
        "message for every house",
        ge=0,
        le=1024,
    )
    client_optimizer: str = setting(
        "kept",
        "RMSprop state: fresh every round, kept by each client, or shared by all (official code)",
        choices=("fresh", "kept", "shared"),
    )

    @property
    def merging(self) -> "FederationSettings":
        """These settings as the server reads them.

        Where there are no models of several houses to merge (one client has all data, or nobody shares anything), houses
        train side by side, and a rate of 1 lets the model go on from where its client left it.
        """
        if self.method == "federated":
            return self
        return replace(
            self,
            aggregation="parallel",
            group_size=1,
            max_share=1.0,
            server_learning_rate=1.0,
            server_learning_rate_decay=1.0,
        )
