"""Which keys change nothing in a run, and whether the run says so; run by hand.

    python -m tests.mistakes.silent_keys FOLDER fedrl|cdl|fedvln [FIRST LAST]

Plays a tiny run of every line of RUNS (of those from FIRST to LAST), and with it one for every other value of every key that
results may depend on. It prints the keys that change neither history nor model although nothing is said of them
("silent": some have nothing to do in so small a run), and those of which the table in `ineffective.py` says that nothing
reads them although something changes ("said but read"). An hour or two for a system; test_unread_runs.py tries all that is
said of a run at once.
"""

import dataclasses
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedsuite.errors import InputError, RunFailed
from fedsuite.runs.folder import folder_of
from fedsuite.settings.config import Value, limits_of, read_config, value_of, with_keys
from fedsuite.settings.unread import unread_lines
from fedsuite.storage.files import sha256_of
from simulations.engines.inprocess import run_inprocess
from simulations.systems import System, load_system, to_run_config
from tests import cdl_runs, fedrl_runs, fedvln_runs
from tests.harness import full_keys

Keys = Mapping[str, Any]
METHOD, SCENARIO = "federation.method", "federation.scenario"
TINY: Mapping[str, Keys] = {
    "fedvln": {
        **fedvln_runs.TINY, "num-rounds": 2, "evaluate-every": 2, "generated-seen-houses": 3, "generated-unseen-houses": 1,
        "objective.batch-size": 4, "max-actions": 3, "train-max-actions": 2, "hidden-size": 8,
    },
    "cdl": {
        **cdl_runs.TINY, "system": "tests.golden.runs:CDL",
        "num-rounds": 2, "evaluate-every": 2, "image-size": 32, "num-silos": 3, "train-frames": 8,
        "test-frames": 4, "checkpoint-every": 1,
    },
    "fedrl": fedrl_runs.TINY,
}  # fmt: skip
_EXPLORED = {"stage": "pre-explore", "data.generated-unseen-houses": 3, "objective.batch-size": 64}
_SEEDED = {"privacy.noise": "seeded"}
RUNS: Mapping[str, list[Keys]] = {
    "fedvln": [
        {}, {"objective.kind": "a2c"}, {"objective.kind": "none"}, {"stage": "speaker"}, {"stage": "augment"},
        _EXPLORED, {METHOD: "centralised"}, {METHOD: "local-only"},
        {"federation.aggregation": "sequential"}, {"federation.share": "language-encoder"}, {"federation.group-size": 2},
        {"federation.local-method": "ditto"}, {"privacy.unit": "example", **_SEEDED}, {"privacy.unit": "client", **_SEEDED},
        {**_EXPLORED, METHOD: "local-only"}, {"stage": "speaker", METHOD: "centralised"},
    ],
    "cdl": [
        {}, *({SCENARIO: name} for name in ("star", "cll", "local", "matcha", "complete")),
        *({"objective.loss": name} for name in ("none", "cd_k", "kl_release")),
        *({"objective.loss-space": name} for name in ("feature", "gaussian")),
        {SCENARIO: "fedprox", "training.local-updates": 2}, {SCENARIO: "mst", "training.optimizer": "relay-sgd"},
    ],
    "fedrl": [
        {}, *({METHOD: name} for name in ("dqn-alpha", "dqn-beta", "dqn-full", "fcn-alpha", "fcn-full", "random", "oracle")),
        {"federation.parties": 3}, {"published.follow": "published-code"},
        *({"world.kind": "text2action", METHOD: name} for name in ("fedrl", "dqn-beta", "fcn-alpha", "oracle")),
    ],
}  # fmt: skip
"""What decides which keys are read."""

_SERVERS = ("momentum", "adam", "adagrad", "fedexp")
NAMED: Mapping[str, tuple[str, ...]] = {
    "federation.merge": ("median", "clipped", "trimmed-mean", "fltrust"), "federation.server-optimizer": _SERVERS,
    "federation.participation": ("published",), "federation.local-penalty": ("proximal",),
    "federation.local-method": ("fedrep", "ditto", "apfl"), "agent.decoder": ("prompted",),
    "federation.share": ("language-encoder", "!*bias*"), "federation.underlay": ("nws", "exodus", "auto"),
    "network.model": ("fadnet",), "objective.loss": ("cd_k", "none"), "sabotage.clients": ("0",),
    "data.language": ("hi",),
}  # fmt: skip
"""Other values of keys that take names."""
SAME = {
    "system", "seed", "num-rounds", "checkpoint-every", "client-threads", "device", "data.simulator", "evaluation-clients",
    "evaluate-every", "evaluation.batch-size", "min-reply-fraction",
}  # fmt: skip
"""Keys that are no matter of what is learnt, or of which another value is another run by design."""


def other_values(system: System, key: str, now: Value) -> list[Value]:
    """What a key could have in place of this value; none where no result depends on it."""
    limits = limits_of(system.config_class)[key]
    if limits.may_change or key in SAME:
        return []
    if limits.choices is not None:
        found: list[Value] = list(limits.choices)
    elif isinstance(now, bool):
        found = [not now]
    elif isinstance(now, str):
        found = list(NAMED.get(key, ()))
    elif isinstance(now, int):
        found = [now + 1, now - 1, now + 8]
    else:
        found = [now / 2, now + 0.25]
    return [v for v in found if v != now and limits.complaint(v) is None]


@dataclasses.dataclass(frozen=True)
class Playing:
    """Tiny runs of a system below `folder`, in this process; cache: where generated data are, or will be."""

    name: str
    folder: Path
    cache: Path | None = None

    @property
    def system(self) -> System:
        """The system that the runs are of."""
        return load_system(str(TINY[self.name]["system"]))

    def keys_of(self, line: Keys) -> dict[str, Any]:
        """All keys of one of RUNS."""
        keys = full_keys(self.system.config_class, {**TINY[self.name], **line})
        cache = self.cache or self.folder / "cache"
        keys |= {"results-dir": str(self.folder), "data.cache-dir": str(cache)}
        if keys.get("stage") in ("augment", "pre-explore"):
            for stage in ("train", "speaker"):
                if not (self.folder / stage).exists():
                    self.play({**keys, METHOD: "federated", "stage": stage, "name": stage})
            keys["start-from"], keys["speaker-from"] = (
                str(self.folder / stage) for stage in ("train", "speaker")
            )
        return keys

    def settings(self, keys: Keys) -> Any:
        """Read and checked; InputError if they go with each other in no run."""
        settings = read_config(self.system.config_class, keys)
        self.system.validate(settings)
        return settings

    def play(self, keys: Keys) -> dict[str, str]:
        """Digests of a run's history and model; without a name it leaves nothing behind."""
        with tempfile.TemporaryDirectory() as place:
            named = {} if "name" in keys else {"name": "run", "results-dir": place}
            settings = self.settings({**keys, **named})
            run = folder_of(settings).path
            run_inprocess(to_run_config(settings))
            left = ("history.jsonl", "model.safetensors")
            return {name: sha256_of((run / name).read_bytes()) for name in left}

    def said(self, keys: Keys) -> set[str]:
        """Keys of which the run says that nothing reads them."""
        lines = unread_lines(self.settings(keys), self.system.unread)
        return {line.partition(" = ")[0] for line in lines if ": nothing reads it" in line}

    def trials(self, keys: Keys) -> Iterator[tuple[str, Value]]:
        """Every key with every other value that a run could have."""
        settings = self.settings(keys)
        for key in limits_of(self.system.config_class):
            for value in other_values(self.system, key, value_of(settings, key)):
                try:
                    self.system.validate(with_keys(settings, {key: value}))
                except InputError:
                    continue
                yield key, value


def main(name: str, folder: Path, first: int = 0, last: int = 1000) -> None:
    playing = Playing(name, folder / name)
    for line in RUNS[name][first : last + 1]:
        keys = playing.keys_of(line)
        wanted = playing.play(keys)
        for key, value in playing.trials(keys):
            if key in line:
                continue
            tried = {**keys, key: value}
            try:
                same, said = playing.play(tried) == wanted, key in playing.said(tried)
            except (InputError, RunFailed):
                continue
            if same != said:
                print(
                    f"{line} {key} = {value}: {'silent' if same else 'said but read'}", flush=True
                )
        print(f"{line} done", flush=True)


if __name__ == "__main__":
    main(sys.argv[2], Path(sys.argv[1]), *map(int, sys.argv[3:]))
