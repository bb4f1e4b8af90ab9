"""Combinations of FedVLN settings that no single range can rule out: one line each, before anything is started."""

from collections.abc import Iterator

import numpy as np

from fedsuite.averaging.local_methods import chosen_method
from fedsuite.averaging.requirements import averaging_complaints
from fedsuite.errors import InputError
from fedsuite.settings.devices import check_device
from fedsuite.settings.metrics import KEY
from fedsuite.settings.values import shown, tried
from fedsuite.vln.config import FedVLNConfig
from fedsuite.vln.evaluation.metrics import episode_metrics
from fedsuite.vln.metrics import metrics_of
from fedsuite.vln.model.decoders import tried_decoder
from fedsuite.vln.private_checks import in_privacy
from fedsuite.vln.stacking import brings_sums, stacking_complaints
from fedsuite.vln.stages import describes_paths, exchange_of, has_own
from fedsuite.vln.start import model_file, run_of

_METHOD = "federation.local-method"


def validate(config: FedVLNConfig) -> None:
    """Quick: reads no data, writes nothing."""
    for find in (
        _in_agent, _in_stage, _in_sharing, _in_values, _in_messages, _in_sabotage, _in_models, in_privacy,
        stacking_complaints,
    ):  # fmt: skip
        for complaint in find(config):
            raise InputError(complaint)
    if config.data.simulator != "tables":
        from fedsuite.vln.mattersim import (
            make_simulator,
        )  # reads houses, which servers have no use for

        make_simulator(config.data.simulator)
    in_turn = config.federation.aggregation == "sequential"
    in_turn = in_turn or config.federation.client_optimizer == "shared"
    config.sabotage.check(in_turn, rounds=config.num_rounds)
    check_device(config.device)
    _try_metrics(config)


def _try_metrics(c: FedVLNConfig) -> None:
    """Metrics of one's own, on two walks along a corridor of three viewpoints."""
    distance_m = np.array([[0.0, 2.0, 4.0], [2.0, 0.0, 2.0], [4.0, 2.0, 0.0]])
    with tried(KEY, c.evaluation.metrics):
        episode_metrics(distance_m, [[0, 1], [0]], [[0, 1, 2]] * 2, own=metrics_of(c).computed)


def _in_agent(c: FedVLNConfig) -> Iterator[str]:
    if c.agent.hidden_size % 2:
        yield f"agent.hidden-size: must be even for a two-way LSTM, got {c.agent.hidden_size}"
    if c.agent.angle_feature_size % 4:
        yield f"agent.angle-feature-size: must be a multiple of 4, got {c.agent.angle_feature_size}"
    if c.stage == "speaker" or (c.objective.kind != "none" and c.objective.sampled_weight > 0):
        return
    weights = {"teacher": c.objective.teacher_weight, "generated": c.objective.generated_weight}
    used = {"train": ["teacher"], "augment": ["teacher", "generated"], "pre-explore": ["generated"]}
    from_seen = ["teacher"] if c.federation.seen_participation_rate else []
    for kind in [*used[c.stage], *from_seen]:
        if not weights[kind]:
            yield (
                f"objective.{kind}-weight: 0 with objective.kind none or objective.sampled-weight 0 leaves nothing to learn "
                "from these mini-batches; raise one of them"
            )


def _in_stage(c: FedVLNConfig) -> Iterator[str]:
    local, speaker = c.federation.method == "local-only", c.stage == "speaker"
    shared = c.federation.client_optimizer == "shared"
    submission, selection = c.evaluation.submission, c.evaluation.selection
    if local and c.stage not in ("train", "pre-explore"):
        yield f"federation.method: stage {c.stage} has no local-only form; choose federated or centralised"
    if local and shared:
        yield "federation.client-optimizer: local-only houses share nothing; choose kept or fresh"
    if local and c.stage == "train" and submission:
        yield (
            "evaluation.submission: local-only training has no single agent to submit; set evaluation.submission=false"
        )
    if local and c.stage == "train" and selection != "last":
        yield "evaluation.selection: local-only training scores its agents once, after the last round; choose last"
    if speaker and shared:
        yield "federation.client-optimizer: a speaker's Adam is not handed on; choose kept or fresh"
    if speaker and submission:
        yield "evaluation.submission: a speaker does not walk; set evaluation.submission=false"
    if c.evaluation_clients and submission:
        yield "evaluation-clients: a submission is of all houses; set it to 0, or evaluation.submission=false"
    if c.evaluation_clients and has_own(c):
        yield "evaluation-clients: every house is scored with a model of its own and exports it; set it to 0"
    if c.data.dataset != "r2r" and submission:
        yield (
            "evaluation.submission: the leaderboard's files are R2R's; set evaluation.submission=false for "
            f"{c.data.dataset}"
        )
    if c.ablations.blind_to == "language" and c.stage != "train":
        yield f"ablations.blind-to: language hides annotated instructions, not those of stage {c.stage}; choose nothing"
    if c.ablations.shuffle_instructions and c.stage in ("augment", "pre-explore"):
        yield (
            f"ablations.shuffle-instructions: the instructions that stage {c.stage} generates stay with their paths; "
            "set it to false"
        )
    if c.stage == "pre-explore" and selection == "best-val-seen":
        yield "evaluation.selection: pre-exploration scores unseen houses only; choose last or best-val-unseen"


def _in_values(c: FedVLNConfig) -> Iterator[str]:
    own = c.federation
    yield from averaging_complaints(own, ("seeded", "published"))
    tried_decoder(c.agent)
    if own.merge == "pba" and c.agent.decoder == "envdrop":
        yield "federation.merge: pba goes by prompts, which agent.decoder=envdrop has not; set agent.decoder=prompted"
    in_turn = own.aggregation == "sequential" or own.client_optimizer == "shared"
    side_by_side = {
        "server-optimizer": own.server_optimizer, "merge": own.merge, "update-bound": own.update_bound,
    }  # fmt: skip
    for key, value in side_by_side.items():
        if value not in ("none", "mean", 0.0) and (in_turn or own.method != "federated"):
            yield (
                f"federation.{key}: {value} is for houses that train side by side; set federation.method=federated, "
                "federation.aggregation=parallel and federation.client-optimizer=kept or fresh"
            )
    if own.control_variates and (
        in_turn or own.method != "federated" or own.merge != "mean" or own.update_bound
    ):
        yield (
            "federation.control-variates: they are a plain mean over houses that train side by side; set "
            "federation.method=federated, aggregation=parallel, client-optimizer=kept or fresh, merge=mean, update-bound=0"
        )
    if c.stage == "speaker" and own.local_penalty != "none":
        yield "federation.local-penalty: a speaker trains without one; set it to none"
    if c.stage == "speaker" and chosen_method(_METHOD, own.local_method).by_steps:
        yield f"{_METHOD}: {own.local_method} is not built for speakers; choose plain, fedrep or ditto"


def _in_sharing(c: FedVLNConfig) -> Iterator[str]:
    own = c.federation
    personal = c.stage == "pre-explore" and own.method == "federated"
    alone = {"share": "agent", "local-method": "plain", "codec": "none"}
    for key, usual in alone.items():
        value = getattr(own, key.replace("-", "_"))
        if value != usual and own.method != "federated":
            yield f"federation.{key}: {value} is for federation.method=federated; choose {usual}"
    shared = own.client_optimizer == "shared"
    if shared and (has_own(c) or own.codec != "none"):
        yield (
            "federation.client-optimizer: shared hands on the state of a whole model as it is; choose kept or fresh, or "
            "federation.share=agent, local-method=plain and codec=none"
        )
    if own.seen_participation_rate and not personal:
        yield "federation.seen-participation-rate: seen houses learn along in federated pre-exploration only; set 0"
    if own.seen_participation_rate and own.participation != "seeded":
        yield (
            f"federation.participation: {own.participation} draws among houses of one kind, not among seen ones beside "
            "unseen ones; choose seeded"
        )
    if c.stage == "pre-explore" and own.client_optimizer == "shared":
        yield (
            "federation.client-optimizer: shared would carry one house's gradients to the next; choose kept or fresh"
        )


def _in_messages(c: FedVLNConfig) -> Iterator[str]:
    """What hides in sums cannot be asked for; whom one message is for has to train at the same time."""
    own, key = c.federation, "federation.houses-per-message"
    if own.secure_sum and own.method != "federated":
        yield f"federation.secure-sum: federation.method = {own.method} adds nothing up; set one of the two anew"
    if own.secure_sum and c.sabotage.clients:
        yield "federation.secure-sum: hides what sabotage.clients would have to alter; set one of the two anew"
    if not own.houses_per_message:
        return
    if c.evaluation_clients:
        yield f"{key}: evaluation-clients needs a message of every house by itself; set one of the two to 0"
    in_turn = {
        "method": own.method == "centralised", "aggregation": own.aggregation == "sequential",
        "client-optimizer": own.client_optimizer == "shared",
    }  # fmt: skip
    for name, alone in in_turn.items():
        if alone:
            value = shown(getattr(own, name.replace("-", "_")))
            yield f"{key}: federation.{name} = {value} trains one client at a time; set it to 0"
    if brings_sums(c) and own.houses_per_message & (own.houses_per_message - 1):
        yield f"{key}: {own.houses_per_message} is no power of two; set 1, 2, 4, 8, ..., or 0 for a message a house"


def _in_sabotage(c: FedVLNConfig) -> Iterator[str]:
    """What would be no attack, or half of one."""
    key, flips = "sabotage.attack: label-flip", c.sabotage.attack == "label-flip"
    if not c.sabotage.clients:
        return
    if flips and describes_paths(c):
        yield (
            f"{key} swaps left and right in annotated instructions, but in stage {c.stage} houses learn from generated "
            "ones; choose another"
        )
    if flips and c.ablations.blind_to == "language":
        yield f"{key} finds no words to swap with ablations.blind-to=language; choose another"
    if c.sabotage.triggers and c.stage == "speaker":
        yield "sabotage.attack: backdoor misleads an agent, but stage speaker trains none; choose another"
    if c.sabotage.triggers and c.ablations.blind_to == "vision":
        yield "sabotage.attack: backdoor hides in views, which ablations.blind-to=vision takes away; choose another"
    if not exchange_of(c).share.prefixes:
        yield "sabotage.clients: houses that share nothing can send nothing false; set federation.method=federated"


def _in_models(c: FedVLNConfig) -> Iterator[str]:
    """What the stage asks for is given and there."""
    if c.stage in ("augment", "pre-explore") and not c.speaker_from:
        yield f"speaker-from: empty, but stage {c.stage} needs a speaker; give the folder of a run of stage speaker"
    if c.stage == "pre-explore" and not c.start_from:
        yield "start-from: empty, but pre-exploration starts from a trained agent; give its run with --from RUN"
    if c.stage in ("train", "speaker") and c.speaker_from:
        yield f"speaker-from: stage {c.stage} uses no speaker; leave it empty"
    for key, path in (("start-from", c.start_from), ("speaker-from", c.speaker_from)):
        if path:
            model_file(run_of(path, c.seed), key)
