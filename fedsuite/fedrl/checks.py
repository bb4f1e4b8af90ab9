"""Combinations of FedRL settings that no single range can rule out: one line each, before anything is started."""

from fedsuite.errors import InputError
from fedsuite.fedrl.actions import HEIGHTS, NUM_ACTIONS
from fedsuite.fedrl.config import FedRLConfig
from fedsuite.fedrl.metrics import PLAYED, metrics_of
from fedsuite.settings.devices import check_device
from fedsuite.settings.metrics import KEY
from fedsuite.settings.values import tried

_IMITATING = ("fcn-alpha", "fcn-full")
_UNTAUGHT = ("random", "oracle")  # have no network


def validate(config: FedRLConfig) -> None:
    """Combinations of keys that no single range can rule out."""
    check_device(config.device)
    with tried(KEY, config.evaluation.metrics):
        PLAYED.means(metrics_of(config).computed)
    if config.min_reply_fraction < 1:
        raise InputError("min-reply-fraction: a party cannot go on without the others; set it to 1")
    if config.evaluation_clients:
        raise InputError("evaluation-clients: parties are scored together; set it to 0")
    if config.federation.sealed and len(config.federation.roles) == 1:
        raise InputError(
            f"federation.sealed: {config.federation.method} has one party, with nobody to seal messages for; set it to false"
        )
    method, starts = config.federation.method, config.published.rules.starts
    if len(config.federation.roles) > 1 and config.published.rules.mlp_start == "sum":
        _check_sum(config)
    if config.world.kind == "gridworld" and method in ("oracle", *_IMITATING) and starts != "exact":
        raise InputError(
            f'published.starts: "{starts}", but method "{method}" '
            'follows the stored paths, which join exact starts; set published.starts = "exact"'
        )
    if config.world.kind == "text2action":
        if config.federation.parties > 2:
            raise InputError(
                "federation.parties: a third party exists in gridworld only; set it to 2"
            )
        if config.data.corpus == "generated" and config.data.dir:
            raise InputError(
                "data.dir: corpus generated reads no files; name another corpus, or none"
            )
        if config.data.text_source != "generated" and not config.data.dir:
            raise InputError(
                f"data.dir: corpus {config.data.corpus} is read from t2a_{config.data.corpus}.json.gz; give its folder, "
                "or set data.corpus=generated"
            )
        words, seen = config.world.max_words, max(HEIGHTS)
        if 0 < words < seen and method not in _UNTAUGHT:
            raise InputError(
                f"world.max-words: {words}, but filters see {seen} words at once; set it to 0, or to {seen} or more"
            )
    if method in (*_UNTAUGHT, *_IMITATING) and config.learning.round_unit == "episodes":
        raise InputError(
            f"learning.round-unit: {method} plays no episodes in training; set it to steps"
        )
    if config.learning.batch_size + config.world.history >= config.learning.memory:
        raise InputError(
            f"learning.memory: {config.learning.memory} records are no more than batch-size + history; make it larger"
        )
    if config.federation.parallel_episodes > config.learning.memory:
        raise InputError(
            "federation.parallel-episodes: more parallel episodes than memory has records; lower it"
        )


def _check_sum(config: FedRLConfig) -> None:
    """Whether the shared MLP can start as the sum of the parties' Q-values, and the targets with it."""
    if config.published.rules.target_refresh == "published":
        raise InputError(
            'published.mlp-start: "sum", but with published.target-refresh "published" the targets are another draw '
            'for ever, no sum; set published.target-refresh = "all" or published.mlp-start = "published"'
        )
    hidden, least = config.network.mlp_hidden, 2 * NUM_ACTIONS[config.world.kind]
    if 0 < hidden < least:
        raise InputError(
            f"network.mlp-hidden: {hidden}, but a shared MLP that starts as a sum needs two units for each joint action, "
            f'{least} at least; set it to 0 ({least}) or more, or published.mlp-start = "published"'
        )
