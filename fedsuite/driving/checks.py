"""Combinations of CDL settings that no single range can rule out: one line each, before anything is started."""

from collections.abc import Iterator

import numpy as np
import torch

from fedsuite.averaging.exchange import chosen_codec
from fedsuite.averaging.privacy_settings import CLIENT, EXAMPLE
from fedsuite.averaging.server_optimizers import SERVER_OPTIMIZERS, TAKES
from fedsuite.driving.config import CDLConfig
from fedsuite.driving.evaluation.metrics import errors_of
from fedsuite.driving.federation_settings import CUSTOM, SERVER_SCENARIOS
from fedsuite.driving.metrics import metrics_of
from fedsuite.driving.optimizers.local_optimizers import LOCAL_OPTIMIZERS
from fedsuite.driving.plan import make_plan
from fedsuite.driving.sealed_checks import sealed_complaints
from fedsuite.driving.topology.optimal_weights import SOLVED, check_solver
from fedsuite.driving.training.contrastive import loss_of
from fedsuite.driving.trials import tried_loss, tried_network
from fedsuite.errors import InputError
from fedsuite.privacy.complaints import optimizer_complaints, value_complaints
from fedsuite.settings.devices import check_device
from fedsuite.settings.metrics import KEY
from fedsuite.settings.values import chosen, shown, tried


def validate(config: CDLConfig) -> None:
    """Combinations of keys that no single range can rule out; builds the network and the overlay once."""
    check_device(config.device)
    config.sabotage.check(rounds=config.num_rounds)
    if config.sabotage.partitions and config.federation.silos_per_client != 1:
        raise InputError(
            "sabotage.clients: a hostile client is one silo; set federation.silos-per-client=1"
        )
    if config.sabotage.partitions and config.sabotage.attack == "weight-lie":
        raise InputError(
            "sabotage.attack: weight-lie claims samples, but weights of mixing come from overlay and roster; choose another"
        )
    kept = config.network.batch_norm == "local" or config.federation.share != "all"
    if kept and config.evaluation.cross_evaluation:
        raise InputError(
            "evaluation.cross-evaluation: with network.batch-norm=local, or federation.share other than all, a backbone is "
            "not whole away from home; set it to false"
        )
    if config.data.fold >= (folds := round(1 / config.data.test_share)):
        raise InputError(
            f"data.fold: {config.data.fold}, but data.test-share={config.data.test_share:g} makes {folds} folds; choose one "
            f"of 0 to {folds - 1}"
        )
    if config.federation.mixing_matrix in SOLVED:
        check_solver()
    if config.federation.scenario == CUSTOM and not config.federation.underlay_file:
        raise InputError(
            "federation.underlay-file: scenario custom mixes by your own matrix or network; give its file"
        )
    if config.objective.influence == "exponential" and config.objective.influence_floor <= 0:
        raise InputError(
            "objective.influence-floor: an exponential schedule never gets to 0; set it above 0 or choose "
            "objective.influence=linear"
        )
    with tried(KEY, config.evaluation.metrics):
        errors_of(np.linspace(-0.5, 0.5, 3), np.zeros(3), metrics_of(config).computed)
    _check_server(config)
    for complaint in (*_of_privacy(config), *sealed_complaints(config)):
        raise InputError(complaint)
    _check_sums(config)
    _check_loss(config)
    _check_sub_network(config)
    network = tried_network(config)
    if config.network.share_stem and not getattr(network, "shares_stem", False):
        raise InputError(
            f"network.share-stem: {config.network.model} has no stem to share; choose resnet8, or set it to false"
        )
    _check_batch(config, network)
    # Otherwise drives must be counted, where they are.
    if config.data.num_silos or not config.data.dir:
        make_plan(config)


def _check_server(config: CDLConfig) -> None:
    """A server that does more than average needs all silos' models, and gives all of them the same one; one that is sent
    coded changes needs the change of each silo by itself."""
    own, optimizer = config.federation, config.training.optimizer
    chosen("federation.server-optimizer", own.server_optimizer, SERVER_OPTIMIZERS, TAKES)
    codec = chosen_codec("federation.codec", own.codec)
    asked = {
        "federation.server-optimizer=none": own.server_optimizer != "none",
        "federation.server-learning-rate=1": own.server_learning_rate != 1,
        "federation.control-variates=false": own.control_variates,
        "privacy.unit=none": config.privacy.unit == CLIENT,
        "federation.codec=none": codec is not None,
    }
    off = next((key for key, on in asked.items() if on), "")
    key = off.partition("=")[0]
    if not off:
        return
    if own.scenario not in SERVER_SCENARIOS:
        raise InputError(
            f"{key}: {own.scenario} has no server; set federation.scenario to {', '.join(SERVER_SCENARIOS)}, or {off}"
        )
    if own.merge != "mean" and key != "federation.codec":
        raise InputError(
            f"{key}: goes with the mean over silos, not with federation.merge={own.merge}; set that to mean, or {off}"
        )
    if own.mixings_per_round != 1:
        raise InputError(
            f"{key}: the server works once a round, but federation.mixings-per-round={own.mixings_per_round}; set that "
            f"to 1, or {off}"
        )
    if LOCAL_OPTIMIZERS[optimizer].rule:
        raise InputError(
            f"{key}: training.optimizer={optimizer} makes up for mixing itself; set that to adam, sgd or nesterov, or {off}"
        )
    if codec and config.network.batch_norm == "average":
        raise InputError(
            "federation.codec: network.batch-norm=average sends variances, and what is left out of their changes may leave "
            "one below 0; set that to group or local, or federation.codec=none"
        )


def _of_privacy(config: CDLConfig) -> Iterator[str]:
    """What would tell of one silo, or of one frame, without noise."""
    own, unit = config.federation, config.privacy.unit
    if unit == "none":
        return
    yield from value_complaints(config.privacy)
    if own.control_variates:
        yield "federation.control-variates: they carry gradients without noise; set it to false, or privacy.unit=none"
    if config.network.batch_norm == "average" or (
        unit == EXAMPLE and config.network.batch_norm != "group"
    ):
        yield (
            f"network.batch-norm: {config.network.batch_norm} keeps statistics of the frames, which get no noise; set it to "
            "group"
        )
    if unit == EXAMPLE:
        if config.objective.contrastive:
            yield (
                f"objective.loss: with {config.objective.loss} the sub-network, which gets no noise, takes part in every "
                "gradient; set it to none, or privacy.unit=client"
            )
        if config.training.stacked == "yes":
            yield "training.stacked: the gradients of single frames are taken silo by silo; set it to auto"
        return
    if own.data_weighted:
        yield "federation.data-weighted: noise hides one of silos that weigh alike; set it to false"
    if config.sabotage.partitions:
        yield "sabotage.clients: a hostile silo's own model is in the result without noise; leave it empty"
    yield from optimizer_complaints(own.server_optimizer)


def _check_sums(config: CDLConfig) -> None:
    """A secure sum needs a server, one change of each silo, and nothing that looks at single ones."""
    own = config.federation
    if not own.secure_sum:
        return
    if own.scenario not in SERVER_SCENARIOS:
        raise InputError(
            f"federation.secure-sum: {own.scenario} has no server that could add; set federation.scenario to "
            f"{', '.join(SERVER_SCENARIOS)}, or federation.secure-sum to false"
        )
    needed: dict[str, tuple[object, object]] = {
        "federation.merge": (own.merge, "mean"),
        "federation.codec": (own.codec, "none"),
        "federation.silos-per-client": (own.silos_per_client, 1),
        "federation.mixings-per-round": (own.mixings_per_round, 1),
        "sabotage.clients": (config.sabotage.clients, ""),
    }
    for key, (value, wanted) in needed.items():
        if value != wanted:
            raise InputError(
                f"federation.secure-sum: goes with {key} = {shown(wanted)} only, not {shown(value)}; set one of the two anew"
            )
    if config.network.batch_norm == "average":
        raise InputError(
            "federation.secure-sum: network.batch-norm = average mixes variances by single means; set that to group or local"
        )
    if LOCAL_OPTIMIZERS[config.training.optimizer].rule or own.server_optimizer == "fedexp":
        key = (
            "federation.server-optimizer"
            if own.server_optimizer == "fedexp"
            else "training.optimizer"
        )
        raise InputError(f"federation.secure-sum: this {key} needs single models; choose another")


def _check_loss(config: CDLConfig) -> None:
    objective = config.objective
    loss = tried_loss(config)
    if objective.loss_space not in loss.spaces:
        raise InputError(
            f"objective.loss-space: {objective.loss_space}, but {objective.loss} has no such form; set it to "
            f"{' or '.join(loss.spaces)}"
        )


def _check_sub_network(config: CDLConfig) -> None:
    """A sub-network that is not `trained` stands apart from the backbone, and who has gradients is its rule's affair."""
    objective = config.objective
    if objective.sub_network == "trained" or not objective.contrastive:
        return
    if config.network.share_stem:
        raise InputError(
            f"network.share-stem: with objective.sub-network={objective.sub_network} no tensor of the sub-network may be "
            "trained or mixed with the backbone; set it to false"
        )
    if not loss_of(objective).soft_labels:
        raise InputError(
            f"objective.sub-network: {objective.sub_network}, but {objective.loss} sends its own gradients to both "
            "networks; set it to trained, or choose objective.loss=kl"
        )


def _check_batch(config: CDLConfig, network: torch.nn.Module) -> None:
    """BatchNorm has no variance of a single frame whose last map is a single pixel."""
    if config.training.batch_size > 1 or config.network.batch_norm == "group":
        return
    frame = torch.zeros(1, config.data.channels, config.data.image_size, config.data.image_size)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            network.train()(frame)
    except ValueError:
        raise InputError(
            f"training.batch-size: {config.network.model} at {config.data.image_size} pixels cannot normalise a batch "
            "of 1; set it to 2 or more, or network.batch-norm=group"
        ) from None
