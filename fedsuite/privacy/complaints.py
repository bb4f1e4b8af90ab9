"""What of a run's settings does not go with its section `privacy`: one line each, before anything is started."""

from collections.abc import Iterator

from fedsuite.averaging.privacy_settings import CLIENT, EXAMPLE, PrivacySettings
from fedsuite.averaging.settings import AveragingSettings, FedAvgSettings
from fedsuite.errors import InputError
from fedsuite.privacy.accounting import epsilon_of
from fedsuite.privacy.client_level import sum_multiplier
from fedsuite.settings.values import shown


def check_privacy(config: FedAvgSettings) -> None:
    """InputError for the first complaint; quick, reads no data, writes nothing."""
    for complaint in privacy_complaints(config.privacy, config.federation):
        raise InputError(complaint)


def privacy_complaints(own: PrivacySettings, federation: AveragingSettings) -> Iterator[str]:
    """Of the section itself, and of how a server averages."""
    yield from value_complaints(own)
    if own.unit == EXAMPLE and federation.control_variates:
        yield (
            "federation.control-variates: they carry gradients without noise, which privacy.unit = example has to hide; set "
            "it to false"
        )
    if own.unit == EXAMPLE and federation.local_method != "plain":
        yield (
            f"federation.local-method: {federation.local_method} may train more than once in a visit, of which the ledger "
            "of privacy.unit = example counts one; set it to plain"
        )
    if own.unit != CLIENT:
        return
    needed = {
        "merge": (federation.merge, "mean", "weighs clients otherwise than alike"),
        "max-share": (federation.max_share, 1.0, "weighs clients by their samples"),
        "update-bound": (federation.update_bound, 0.0, "measures every change by those of others"),
        "group-size": (federation.group_size, 1, "has clients train on the models of others"),
        "control-variates": (
            federation.control_variates, False, "carries what clients learnt without noise",
        ),
    }  # fmt: skip
    for key, (value, wanted, why) in needed.items():
        if value != wanted:
            yield f"federation.{key}: {shown(value)} {why}, so noise could not hide one of them; set it to {shown(wanted)}"
    yield from optimizer_complaints(federation.server_optimizer)
    if ":" in federation.participation:
        yield (
            f"federation.participation: {federation.participation} is told what clients said, without noise; choose seeded"
        )


def optimizer_complaints(server_optimizer: str) -> Iterator[str]:
    """Of a server optimizer under client-level privacy, which may know the noised change alone."""
    if server_optimizer == "fedexp" or ":" in server_optimizer:
        yield (
            f"federation.server-optimizer: {server_optimizer} is told the clients' changes without noise; choose none, "
            "momentum, nesterov, adam, yogi or adagrad"
        )


def value_complaints(own: PrivacySettings) -> Iterator[str]:
    """Of the section alone."""
    if own.unit == CLIENT and own.adaptive_clip and own.count_noise:
        sum_multiplier(own.noise_multiplier, own.count_noise)
    if own.unit == CLIENT and own.max_epsilon:
        first = epsilon_of({(own.noise_multiplier, 1.0): 1}, own.delta)
        if first > own.max_epsilon:
            yield (
                f"privacy.max-epsilon: {own.max_epsilon:g}, but the first round alone has an epsilon of {first:.4g} at "
                f"delta {own.delta:g}; raise it, or privacy.noise-multiplier"
            )
