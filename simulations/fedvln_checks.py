"""Combinations of FedVLN settings that no single range can rule out: one line each, before anything is started."""

from fedsuite.devices import check_device
from fedsuite.errors import InputError
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.mattersim import make_simulator
from fedsuite.vln.starting import check_named


def validate(config: FedVLNConfig) -> None:
    """Quick: reads no data, writes nothing."""
    _check_agent(config)
    _check_stage(config)
    _check_sharing(config)
    check_named(config)
    if config.simulator != "tables":
        make_simulator(config.simulator)
    check_device(config.device)


def _check_agent(c: FedVLNConfig) -> None:
    if c.hidden_size % 2:
        raise InputError(f"hidden-size: must be even for a two-way LSTM, got {c.hidden_size}")
    if c.angle_feature_size % 4:
        raise InputError(f"angle-feature-size: must be a multiple of 4, got {c.angle_feature_size}")
    if c.stage == "speaker" or (c.objective != "none" and c.sampled_weight > 0):
        return
    weights = {
        "train": {"teacher-weight": c.teacher_weight},
        "augment": {"teacher-weight": c.teacher_weight, "generated-weight": c.generated_weight},
        "pre-explore": {"generated-weight": c.generated_weight},
    }[c.stage]
    if not any(weights.values()):
        raise InputError(
            f"{', '.join(weights)}: 0 with objective none leaves nothing to learn; raise one of them"
        )


def _check_stage(c: FedVLNConfig) -> None:
    local = c.method == "local-only"
    if local and c.stage not in ("train", "pre-explore"):
        raise InputError(
            f"method: stage {c.stage} has no local-only form; choose federated or centralised"
        )
    if local and c.client_optimizer == "shared":
        raise InputError("client-optimizer: local-only houses share nothing; choose kept or fresh")
    if local and c.stage == "train" and c.submission:
        raise InputError(
            "submission: local-only training has no single agent to submit; set submission=false"
        )
    if local and c.stage == "train" and c.selection != "last":
        raise InputError(
            "selection: local-only training scores its agents once, after the last round; choose last"
        )
    if c.stage == "speaker" and c.client_optimizer == "shared":
        raise InputError(
            "client-optimizer: a speaker's Adam is not handed on; choose kept or fresh"
        )
    if c.stage == "speaker" and c.submission:
        raise InputError("submission: a speaker does not walk; set submission=false")
    if c.dataset == "rxr" and c.submission:
        raise InputError(
            "submission: the leaderboard's files are R2R's; set submission=false for rxr"
        )
    if c.stage == "pre-explore" and c.selection == "best-val-seen":
        raise InputError(
            "selection: pre-exploration scores unseen houses only; choose last or best-val-unseen"
        )


def _check_sharing(c: FedVLNConfig) -> None:
    personal = c.stage == "pre-explore" and c.method == "federated"
    if c.share != "agent" and not personal:
        raise InputError(
            f"share: {c.share} is for federated pre-exploration, where houses keep the rest; choose agent"
        )
    if c.seen_participation_rate and not personal:
        raise InputError(
            "seen-participation-rate: seen houses learn along in federated pre-exploration only; set 0"
        )
    if c.seen_participation_rate and c.participation == "published":
        raise InputError(
            "participation: the published lists know no seen houses beside unseen ones; choose seeded"
        )
    if c.stage == "pre-explore" and c.client_optimizer == "shared":
        raise InputError(
            "client-optimizer: shared would carry one house's gradients to the next; choose kept or fresh"
        )
