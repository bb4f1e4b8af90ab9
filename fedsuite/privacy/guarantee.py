"""What a run with differential privacy guarantees, and what not, in a few sentences for its results."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsuite.averaging.privacy_settings import CLIENT, EPSILON, SECRET, PrivacySettings
from fedsuite.privacy.accounting import PRACTICAL
from fedsuite.privacy.ledger import read

if TYPE_CHECKING:  # it takes its time to load
    import pandas as pd

_SEEDED = " The noise was drawn from the run's seed, for a study: against anybody who knows the seed nothing is guaranteed."
_SUMMED = "summed"
_BESIDE = "numbers of examples, losses, scores and distances in the history, and a round that was chosen by scores."
_NOT_HIDDEN = {
    CLIENT: (
        "Covered are the models that the server gives out, against everybody but the server, which sees single changes. Not "
        f"covered: {_BESIDE}"
    ),
    _SUMMED: (
        "Covered are the sums that the server gets and the models that come of them, against the server too: members clip "
        "and add the noise themselves. Who took part is known; what is hidden is whether a member added its change or its "
        "noise alone. Members that tell others their noise take it away from everybody's. Not covered: "
        f"{_BESIDE}"
    ),
    "example": (
        "Covered is all that training sends, the server included. Not covered: numbers of examples, scores on examples that "
        "a client holds back, and a round that was chosen by them. Somebody with many examples is hidden less."
    ),
}


def guarantee_text(config: Any, run_dir: Path, rounds: "pd.DataFrame") -> str:
    """A paragraph for results.md; "" of a run without.

    config: settings with sections `privacy` and `federation`; rounds: a line for each, as `load_runs` has them.
    """
    own: PrivacySettings = config.privacy
    if own.unit == "none":
        return ""
    if own.unit == CLIENT:
        ledger = read(run_dir)
        epsilon, releases = ledger.epsilon(own.delta), len(ledger.releases)
        counted = f"{releases} release{'s' * (releases != 1)}"
    else:
        column = f"train.{EPSILON}"
        told = rounds[column].dropna().tolist() if column in rounds else []
        epsilon = max(told, default=0.0)
        counted = f"{len(told)} round{'s' * (len(told) != 1)}, of the client that spent most"
    weak = f" An epsilon above about {PRACTICAL:g} is no protection in practice." * (
        epsilon > PRACTICAL
    )
    kind = _SUMMED if own.unit == CLIENT and config.federation.secure_sum else own.unit
    seeded = _SEEDED * (own.noise != SECRET)
    return (
        f"\nDifferential privacy, unit {own.unit}: epsilon {epsilon:.4g} at delta {own.delta:g} after {counted} (noise "
        f"multiplier {own.noise_multiplier:g}; one {own.unit} more or less).{weak}{seeded} {_NOT_HIDDEN[kind]}\n"
    )
