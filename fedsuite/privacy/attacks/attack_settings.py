"""Settings of attacks: `fedsuite audit RUN --set words.houses=2`."""

from dataclasses import dataclass

from fedsuite.settings.config import section, setting, to_flat
from fedsuite.settings.values import Value


@dataclass(frozen=True)
class WordSettings:
    """Words from moved rows of an embedding."""

    houses: int = setting(8, "houses whose update is attacked, of the round's", ge=1, le=10_000)


@dataclass(frozen=True)
class ViewSettings:
    """Attended views from the decoder's cell."""

    decisions: int = setting(
        24, "decisions that are attacked one by one, at least one of every house", ge=1, le=10_000
    )


@dataclass(frozen=True)
class RecognitionSettings:
    """Instructions by the signs of their gradients."""

    houses: int = setting(8, "houses whose visits are attacked, of the round's", ge=1, le=10_000)
    instructions: int = setting(
        100, "instructions of each visit, and as many others, at most", ge=1, le=10**6
    )


@dataclass(frozen=True)
class MembershipSettings:
    """Loss threshold and LiRA."""

    shadows: int = setting(16, "shadow models of LiRA, an even number; --quick: 4", ge=2, le=1024)
    records: int = setting(
        4000, "records in the attack, members and others, at most", ge=20, le=10**6
    )
    steps: int = setting(
        0, "optimizer steps of a shadow; 0 = the run's longest chain of steps", ge=0, le=10**7
    )
    control_steps: int = setting(
        150, "optimizer steps of the control, a model that has learnt its records by heart", ge=1
    )


@dataclass(frozen=True)
class CanarySettings:
    """Lower bounds of epsilon."""

    count: int = setting(200, "canaries, as far as there are unused words", ge=4, le=10**5)
    guesses: float = setting(1.0, "share of the canaries that is guessed", gt=0, le=1)
    delta: float = setting(1e-5, "delta of the bound", ge=0, lt=1)
    visits: int = setting(
        0,
        "visits with and without one canary, for the bound of many runs; 0 = none",
        ge=0,
        le=10**5,
    )


@dataclass(frozen=True)
class AttackSettings:
    """All of an audit."""

    words: WordSettings = section(WordSettings)
    views: ViewSettings = section(ViewSettings)
    recognition: RecognitionSettings = section(RecognitionSettings)
    membership: MembershipSettings = section(MembershipSettings)
    canaries: CanarySettings = section(CanarySettings)


def changed(settings: AttackSettings) -> dict[str, Value]:
    """Keys with other values than the defaults'."""
    usual = to_flat(AttackSettings())
    return {key: value for key, value in to_flat(settings).items() if value != usual[key]}
