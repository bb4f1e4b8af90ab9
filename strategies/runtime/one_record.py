"""The records of a small message as one, on their way over a SuperLink.

A SuperLink moves a message, its records, each array and each chunk of an array as objects of their own, and each costs it a
request and queries of its database on either side: a task is six objects and its reply seven. Here all records become one
ConfigRecord, so that a message is three. A large message keeps its form: its arrays go to all clients as the same objects,
which the SuperLink stores once. Who is asked in one record answers so.
"""

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from strategies.runtime.packing import PACKED, is_packed, record_of

ONE = "one-record"
NAMES = "records"  # which records there were, so that empty ones come back
LARGEST = 2_000_000  # bytes of arrays that go so
ARRAYS = "arrays"
_KINDS = {
    "config": ConfigRecord, "metrics": MetricRecord, "timing": ConfigRecord, "properties": ConfigRecord,
}  # fmt: skip


def is_in_one(content: RecordDict) -> bool:
    return list(content) == [ONE]


def in_one(content: RecordDict) -> RecordDict:
    """All records as one; the content itself where that cannot hold it, or its arrays are plain or large."""
    one = ConfigRecord({NAMES: list(content)})
    for name, record in content.items():
        if name == ARRAYS and isinstance(record, ArrayRecord) and is_packed(record):
            data = record[PACKED].data
            if len(data) > LARGEST:
                return content
            one[ARRAYS] = data
        elif type(record) is _KINDS.get(name):
            for key, value in record.items():
                one[f"{name}/{key}"] = value
        else:
            return content
    return RecordDict({ONE: one})


def parted(content: RecordDict) -> RecordDict:
    """The records of what is in one, anything else as it is. ValueError or TypeError for what `in_one` does not write."""
    if not is_in_one(content):
        return content
    one = content[ONE]
    names = one.pop(NAMES, None) if isinstance(one, ConfigRecord) else None
    if not isinstance(names, list) or len(set(names)) != len(names):
        raise ValueError(
            f"a message in one record: expected the names of its records, got {names!r:.80}"
        )
    found: dict[str, ArrayRecord | ConfigRecord | MetricRecord] = {}
    for name in names:
        if name == ARRAYS:
            block = one.pop(ARRAYS, None)
            if not isinstance(block, bytes):
                raise ValueError(
                    f"a message in one record: arrays are {type(block).__name__}, expected bytes"
                )
            found[ARRAYS] = record_of(block)
        elif name in _KINDS:
            found[name] = _KINDS[name]()
        else:
            raise ValueError(f"a message in one record: no record is called {name!r:.80}")
    for entry, value in one.items():
        name, slash, key = str(entry).partition("/")
        if not slash or name == ARRAYS or name not in found:
            raise ValueError(
                f"a message in one record: {entry!r:.80} belongs to none of its records"
            )
        found[name][key] = value  # type: ignore[assignment]
    return RecordDict(found)
