"""Reads docker/Dockerfile and .dockerignore, as far as ours go: no heredocs, no parser directives."""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Line:
    """One instruction of a stage; `stage` is the name after AS, empty before the first FROM."""

    stage: str
    word: str
    rest: str

    @property
    def copied(self) -> tuple[str, list[str], str]:
        """Of a COPY: where from (empty: the build context), sources, target."""
        words = shlex.split(self.rest)
        flags = dict(w[2:].split("=", 1) for w in words if w.startswith("--"))
        paths = [w for w in words if not w.startswith("--")]
        return flags.get("from", ""), paths[:-1], paths[-1]

    @property
    def exec_form(self) -> list[str]:
        """Of a CMD, HEALTHCHECK or VOLUME: the JSON list in it."""
        found: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return found


def instructions(text: str = DOCKERFILE) -> list[Line]:
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found, stage = [], ""
    for line in filter(None, kept.replace("\\\n", " ").splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.partition(" AS ")[2]
        found.append(Line(stage, word, " ".join(rest.split())))
    return found


def of(stage: str, word: str) -> list[Line]:
    return [line for line in instructions() if (line.stage, line.word) == (stage, word)]


def _pattern(glob: str) -> re.Pattern[str]:
    """Go's filepath.Match, with ** over any number of folders, as the builder reads .dockerignore."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts))


def in_context(path: str, rules: str = IGNORED) -> bool:
    """Whether the builder sees this file: the last rule that meets it, or a folder above it, decides."""
    above = [path, *map(str, PurePosixPath(path).parents)][:-1]
    seen = True
    for rule in (line.strip() for line in rules.splitlines()):
        if rule and not rule.startswith("#"):
            glob = _pattern(rule.removeprefix("!").strip("/"))
            if any(glob.fullmatch(name) for name in above):
                seen = rule.startswith("!")
    return seen
