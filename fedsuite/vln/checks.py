"""Combinations of FedVLN settings that no single range can rule out: one line each, before anything is started."""

from fedsuite.aggregation import MERGE_RULES, SERVER_OPTIMIZERS
from fedsuite.devices import check_device
from fedsuite.errors import InputError
from fedsuite.penalties import PENALTIES
from fedsuite.values import chosen
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.mattersim import make_simulator
from fedsuite.vln.start import check_named


def validate(config: FedVLNConfig) -> None:
    """Quick: reads no data, writes nothing."""
    _check_agent(config)
    _check_stage(config)
    _check_sharing(config)
    _check_values(config)
    check_named(config)
    if config.data.simulator != "tables":
        make_simulator(config.data.simulator)
    check_device(config.device)


def _check_agent(c: FedVLNConfig) -> None:
    if c.agent.hidden_size % 2:
        raise InputError(
            f"agent.hidden-size: must be even for a two-way LSTM, got {c.agent.hidden_size}"
        )
    if c.agent.angle_feature_size % 4:
        raise InputError(
            f"agent.angle-feature-size: must be a multiple of 4, got {c.agent.angle_feature_size}"
        )
    if c.stage == "speaker" or (c.objective.kind != "none" and c.objective.sampled_weight > 0):
        return
    weights = {
        "train": {"objective.teacher-weight": c.objective.teacher_weight},
        "augment": {
            "objective.teacher-weight": c.objective.teacher_weight,
            "objective.generated-weight": c.objective.generated_weight,
        },
        "pre-explore": {"objective.generated-weight": c.objective.generated_weight},
    }[c.stage]
    if not any(weights.values()):
        raise InputError(
            f"{', '.join(weights)}: 0 with objective.kind none leaves nothing to learn; raise one of them"
        )


def _check_stage(c: FedVLNConfig) -> None:
    local = c.federation.method == "local-only"
    if local and c.stage not in ("train", "pre-explore"):
        raise InputError(
            f"federation.method: stage {c.stage} has no local-only form; choose federated or centralised"
        )
    if local and c.federation.client_optimizer == "shared":
        raise InputError(
            "federation.client-optimizer: local-only houses share nothing; choose kept or fresh"
        )
    if local and c.stage == "train" and c.evaluation.submission:
        raise InputError(
            "evaluation.submission: local-only training has no single agent to submit; set evaluation.submission=false"
        )
    if local and c.stage == "train" and c.evaluation.selection != "last":
        raise InputError(
            "evaluation.selection: local-only training scores its agents once, after the last round; choose last"
        )
    if c.stage == "speaker" and c.federation.client_optimizer == "shared":
        raise InputError(
            "federation.client-optimizer: a speaker's Adam is not handed on; choose kept or fresh"
        )
    if c.stage == "speaker" and c.evaluation.submission:
        raise InputError(
            "evaluation.submission: a speaker does not walk; set evaluation.submission=false"
        )
    if c.data.dataset == "rxr" and c.evaluation.submission:
        raise InputError(
            "evaluation.submission: the leaderboard's files are R2R's; set evaluation.submission=false for rxr"
        )
    if c.stage == "pre-explore" and c.evaluation.selection == "best-val-seen":
        raise InputError(
            "evaluation.selection: pre-exploration scores unseen houses only; choose last or best-val-unseen"
        )


def _check_values(c: FedVLNConfig) -> None:
    own = c.federation
    chosen("federation.server-optimizer", own.server_optimizer, SERVER_OPTIMIZERS)
    chosen("federation.merge", own.merge, MERGE_RULES)
    chosen("federation.local-penalty", own.local_penalty, PENALTIES)
    in_turn = own.aggregation == "sequential" or own.client_optimizer == "shared"
    for key, value in (("server-optimizer", own.server_optimizer), ("merge", own.merge)):
        if value not in ("none", "mean") and (in_turn or own.method != "federated"):
            raise InputError(
                f"federation.{key}: {value} is for houses that train side by side; set federation.method=federated, "
                "federation.aggregation=parallel and federation.client-optimizer=kept or fresh"
            )
    if c.stage == "speaker" and own.local_penalty != "none":
        raise InputError("federation.local-penalty: a speaker trains without one; set it to none")


def _check_sharing(c: FedVLNConfig) -> None:
    personal = c.stage == "pre-explore" and c.federation.method == "federated"
    if c.federation.share != "agent" and not personal:
        raise InputError(
            f"federation.share: {c.federation.share} is for federated pre-exploration, where houses keep the rest; "
            "choose agent"
        )
    if c.federation.seen_participation_rate and not personal:
        raise InputError(
            "federation.seen-participation-rate: seen houses learn along in federated pre-exploration only; set 0"
        )
    if c.federation.seen_participation_rate and c.federation.participation == "published":
        raise InputError(
            "federation.participation: the published lists know no seen houses beside unseen ones; choose seeded"
        )
    if c.stage == "pre-explore" and c.federation.client_optimizer == "shared":
        raise InputError(
            "federation.client-optimizer: shared would carry one house's gradients to the next; choose kept or fresh"
        )
