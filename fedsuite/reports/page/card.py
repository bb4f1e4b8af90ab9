"""A model card of one run: what its model is, its data, how it was trained, how it scores, what it tells, how to load it.

After Mitchell et al. 2019, "Model Cards for Model Reporting"; the head is YAML as Hugging Face reads it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedsuite.errors import InputError
from fedsuite.history import load_run
from fedsuite.reports.outcomes import spread_of
from fedsuite.reports.page.audits import audit_section
from fedsuite.reports.page.digest import Digest
from fedsuite.reports.page.model import Part, Report, Section, table_of
from fedsuite.reports.page.opening import answers_of
from fedsuite.reports.page.results import results_section
from fedsuite.reports.page.settings_table import changed_keys
from fedsuite.reports.page.shared_arrays import sizes_of
from fedsuite.runs.folder import RunFolder
from fedsuite.settings.config import Value
from fedsuite.settings.values import shown

LICENCE = (
    "To be stated by whoever hands the model on. The licences of its data, and of features or weights that it began from, "
    "may bind it too."
)
LIMITS = (
    "It was trained and scored on the data named here alone. Nothing is known of how it does elsewhere.",
    "Scores are of one run: another seed gives others. Intervals, where there are any, know nothing of seeds.",
)
MOST_FACTS = 3  # of the data, that its name is made of


def card_of(digest: Digest, defaults: Mapping[str, Value]) -> Report:
    """InputError for a run that has not completed: it has no model to speak of."""
    if not digest.completed:
        raise InputError(
            f"{digest.place.label}: a model card is of a completed run, this one is {digest.place.status}; continue it, or "
            "name another run"
        )
    sections = (
        _model(digest),
        _data(digest),
        _training(digest, defaults),
        results_section([digest]),
        Section("Privacy", items=(*digest.answers.leaves,)),
        audit_section([digest]),
        Section("Limits", items=(*digest.answers.model.limits, *LIMITS)),
        _loading(digest),
        Section("Licence", text=(LICENCE,)),
    )
    part = Part(digest.answers.model.task, tuple(s for s in sections if not s.is_empty))
    title, system = _name(digest), str(digest.settings.get("system", ""))
    return Report(title, answers_of(system, [digest]), (part,), head=_head(digest, system))


def _name(digest: Digest) -> str:
    """The run's folder, behind its experiment's."""
    place = digest.place
    inside = place.folder.relative_to(place.experiment).as_posix()
    return place.folder.name if inside == "." else f"{place.experiment.name}/{inside}"


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _model(digest: Digest) -> Section:
    own = digest.answers.model
    text = [own.what] if own.what else []
    file = RunFolder(digest.place.folder).model
    if file.is_file():
        sizes = dict(sizes_of(file))
        text.append(
            f"{file.name}: {len(sizes)} arrays, {sum(sizes.values()):,} numbers; SHA-256 {_sha256(file)}."
        )
    return Section("Model", tuple(text))


def _data(digest: Digest) -> Section:
    facts = [{"fact": k.replace("_", " "), "value": v} for k, v in digest.answers.data.items()]
    members = digest.members
    count, examples = len(members), int(members["examples"].sum())
    print_ = load_run(digest.place.folder).data
    text = [f"Clients: {count:,}, with {examples:,} examples together."] if count else []
    text += (
        [f"Fingerprint of who took part and of the data's settings: {print_}."] if print_ else []
    )
    return Section(
        "Data", tuple(text), tables=(table_of("What it was scored on", facts),) if facts else ()
    )


def _training(digest: Digest, defaults: Mapping[str, Value]) -> Section:
    settings = digest.settings
    rows = [
        {
            "key": key,
            "value": _placeless(settings[key]),
            "default": shown(defaults[key]) if key in defaults else "-",
        }
        for key in changed_keys(settings, defaults)
    ]
    versions = ", ".join(f"{k} {v}" for k, v in digest.standing.get("versions", {}).items())
    text = [
        f"System {settings.get('system', '')}, {digest.rounds:,} rounds, seed {settings.get('seed', 0)}."
    ]
    text += [f"Made with {versions}."] if versions else []
    table = table_of("Settings that are not the defaults; of paths the last part", rows)
    return Section("Training", tuple(text), tables=(table,) if rows else ())


def _placeless(value: Value) -> str:
    """Of a path its last part: a card is handed on."""
    text = shown(value)
    return shown(str(value).rpartition("/")[2]) if isinstance(value, str) and "/" in value else text


def _loading(digest: Digest) -> Section:
    code = digest.answers.model.load or "from fedsuite import load_run\n\nrun = load_run({run})"
    return Section(
        "Loading",
        ("Where the run's folder lies in runs/:",),
        code=code.replace("{run}", json.dumps(f"runs/{_name(digest)}")),
    )


def _head(digest: Digest, system: str) -> str:
    """YAML, every text of it as JSON, which is YAML too. The licence is left to be stated."""
    return "\n".join(_head_lines(digest, system))


def _head_lines(digest: Digest, system: str) -> Iterator[str]:
    yield from ("library_name: fedsuite", f"tags: {json.dumps(['federated-learning', system])}")
    yield "# license: to be stated"
    scores = [
        {"type": c.metric, "name": c.title, "value": round(mean * c.scale, c.digits)}
        for c in digest.answers.columns
        if c.metric
        and c.with_spread
        and (mean := spread_of(digest.answers.outcomes[:1], c.metric).mean) == mean
    ]
    name = ", ".join(list(digest.answers.data.values())[:MOST_FACTS]) or system
    data = {"type": load_run(digest.place.folder).data or system, "name": name}
    result = {"task": {"type": digest.answers.model.task}, "dataset": data, "metrics": scores}
    if scores:
        index = {"name": _name(digest), "results": [result]}
        yield f"model-index: {json.dumps([index])}"
