"""Which runs were scored on the same data: only their scores are ranked, and only baselines of theirs stand beside them.

Runs of one line repeat each other, so seeds and folds may have data of their own. Lines that share data are one group.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsuite.reports.page.digest import Digest

MOST_TOLD = 3  # values of a group that its title names
OWN_DATA = (
    "Runs of a line have data of their own here ({count} data sets): a mean is over these as well."
)
NOT_ALL = " Not every line has been scored on all of them: {names}."


@dataclass(frozen=True)
class SameData:
    """Runs whose scores may be compared. title: in what their data differ from those of other groups, "" if there are
    none; note: what must be known of means over them.
    """

    digests: tuple[Digest, ...]
    title: str = ""
    note: str = ""

    def called(self, text: str) -> str:
        """A title of what is shown of this group."""
        return f"{text}: {self.title}" if self.title else text


def fingerprint(content: object) -> str:
    """Eight hex digits of what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def groups_by_data(digests: Sequence[Digest]) -> list[SameData]:
    """In the order given; of completed runs."""
    groups: list[tuple[set[str], list[Digest]]] = []
    lines: dict[str, list[Digest]] = {}
    for digest in (d for d in digests if d.completed):
        lines.setdefault(digest.line, []).append(digest)
    for own in lines.values():
        keys = {_key(d) for d in own}
        shared = [group for group in groups if group[0] & keys]
        for group in shared[1:]:
            groups.remove(group)
        keys.update(*(group[0] for group in shared))
        members = [d for group in shared for d in group[1]] + own
        if shared:
            groups[groups.index(shared[0])] = (keys, members)
        else:
            groups.append((keys, members))
    titles = _titles([members for _, members in groups])
    return [
        SameData(tuple(members), title, _note(members))
        for title, (_, members) in zip(titles, groups, strict=True)
    ]


def _key(digest: Digest) -> str:
    return json.dumps(dict(digest.answers.data), sort_keys=True)


def _titles(groups: Sequence[Sequence[Digest]]) -> list[str]:
    """What tells each group from the others, in the fewest facts that do, first ones first."""
    told = [_told(members) for members in groups]
    facts = list(dict.fromkeys(fact for own in told for fact in own))
    titles = [""] * len(groups)
    for fact in facts:
        if len(set(titles)) == len(groups):
            break
        values = [own.get(fact, "") for own in told]
        if len(set(values)) > 1:
            pairs = zip(titles, values, strict=True)
            titles = [", ".join(filter(None, pair)) for pair in pairs]
    return titles


def _told(members: Sequence[Digest]) -> Mapping[str, str]:
    """Every fact, as the different words that runs have for it."""
    found: dict[str, dict[str, None]] = {}
    for digest in members:
        for fact, words in digest.answers.data.items():
            found.setdefault(fact, {})[words] = None
    return {fact: _listed(list(words)) for fact, words in found.items()}


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - MOST_TOLD} more" if len(words) > MOST_TOLD else ""
    return " / ".join(words[:MOST_TOLD]) + more


def _note(members: Sequence[Digest]) -> str:
    lines: dict[str, set[str]] = {}
    for digest in members:
        lines.setdefault(digest.line, set()).add(_key(digest))
    every = set().union(*lines.values())
    if len(every) < 2:
        return ""
    some = [f"{name} {len(own)}" for name, own in lines.items() if own != every]
    return OWN_DATA.format(count=len(every)) + (
        NOT_ALL.format(names=", ".join(some)) if some else ""
    )
