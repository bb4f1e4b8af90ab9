"""Section `federation` of a FedVLN run: who trains, what is shared, how the server merges it.

Symbols are those of Zhou & Wang 2022, Algorithm 1; merge rules stand in fedsuite/robust.py.
"""

from dataclasses import dataclass

from fedsuite.config import setting


@dataclass(frozen=True)
class FederationSettings:
    """Who trains, what is shared, and how the server merges it."""

    method: str = setting(
        "federated",
        "who trains: every house (federated), one agent on all houses, or every house for itself",
        choices=("federated", "centralised", "local-only"),
    )
    share: str = setting(
        "agent",
        "what of a house's agent the server merges: all of it, or only the language encoder (pre-exploration)",
        choices=("agent", "language-encoder"),
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
        "who takes part: drawn from the seed, or the lists of the official release (Python's generator, 10)",
        choices=("seeded", "published"),
    )
    local_epochs: int = setting(5, "tau, passes over a house's samples per round", ge=1, le=10**6)
    server_learning_rate: float = setting(2.0, "eta, factor on the weighted mean delta", gt=0)
    server_learning_rate_decay: float = setting(
        1.0, "factor on eta every server-decay-steps", gt=0, le=1
    )
    server_decay_steps: int = setting(30_000, "local steps between two decays of eta", ge=1)
    aggregation: str = setting(
        "parallel",
        "parallel = FedAvg on deltas; sequential = each client starts from the model its predecessor moved",
        choices=("parallel", "sequential"),
    )
    group_size: int = setting(
        1,
        "houses of a chain that train one after another, chains side by side; 1 = all side by side",
        ge=1,
        le=1000,
    )
    server_optimizer: str = setting(
        "none",
        "what moves the server's model along the merged change: none (eta times it), momentum, nesterov, adam, yogi, "
        "adagrad, fedexp, or module:NAME of your own",
    )
    server_momentum: float = setting(
        0.9, "beta of momentum and nesterov, beta_1 of adam and yogi", ge=0, lt=1
    )
    server_second_momentum: float = setting(0.99, "beta_2 of adam and yogi", ge=0, lt=1)
    server_tau: float = setting(
        1e-3, "tau, added to the divisor by adam, yogi, adagrad; epsilon of fedexp", gt=0
    )
    server_bias_correction: bool = setting(
        False, "divide running means of adam and yogi by 1 - beta^t (Reddi et al. do not)"
    )
    merge: str = setting(
        "mean",
        "merge rule: mean (weighted); those that withstand hostile houses: median, trimmed-mean, krum, multi-krum, bulyan, "
        "geometric-median; or module:NAME of your own",
    )
    tolerated: int = setting(
        0, "f, hostile houses of a round that the merge rule is to withstand", ge=0, le=1000
    )
    max_share: float = setting(
        1.0, "most weight of one house in a round's merge; 1 = as its samples say", gt=0, le=1
    )
    update_bound: float = setting(
        0.0,
        "longest change, as a multiple of the round's median length, that is merged as it is; 0 = any",
        ge=0,
    )
    beyond_bound: str = setting(
        "clip",
        "a change beyond the bound is shortened to it, or left out",
        choices=("clip", "reject"),
    )
    local_penalty: str = setting(
        "none",
        "term added to a house's loss: none, proximal (FedProx), or module:NAME of your own",
    )
    penalty_strength: float = setting(0.01, "strength of the local penalty; FedProx's mu", ge=0)
    control_variates: bool = setting(
        False,
        "correct local gradients by c - c_k, what all houses' and the own one's are on average (SCAFFOLD)",
    )
    houses_per_message: int = setting(
        0,
        "houses that one message of training is for, a power of two: a worker trains them in turn and sends the sum of "
        "their weighted changes, in simulation only; 0 = a message and a model of its own for every house",
        ge=0,
        le=1024,
    )
    client_optimizer: str = setting(
        "kept",
        "RMSprop state: fresh every round, kept by each client, or shared by all (official code)",
        choices=("fresh", "kept", "shared"),
    )
