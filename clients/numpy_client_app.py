"""A Flower ClientApp around NumPyClients: array names are kept both ways, and errors come back in one form.

Messages: "arrays" and "config" in; "arrays", "metrics" (with num-examples) and "timing" out; arrays go out in the form
in which they came (strategies/runtime/packing.py). A query asks who the client is and is answered by `get_properties` in
"properties". A task with a "resume-round" asks the same beside its work.

The client sees its arrays as the usual list, named in config["array-names"], one a line. It returns arrays of the same
names, or others if its metrics hold "array-names" in the same form; all other metrics must be numbers, but for "failed" of
a client that stands for several: by partition the error texts of those that failed.

A client with a method `instruction(kind, config)` is asked it first, with the kind of a message (query, train, evaluate) and
its config: a config that does not fit the Instruction (fedsuite.messages.instructions) that comes back is answered with an
error.
"""

import logging
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.app.error import Error
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from clients.packing import own_records
from fedsuite.arrays import Arrays
from fedsuite.averaging.several_clients import FAILED
from fedsuite.errors import one_line
from strategies.runtime.packing import arrays_of, is_packed, packed_record, plain_record

NAMES = "array-names"
LOG = logging.getLogger("flwr")  # a node's own
CLIENT_RAISED = 2  # Flower's code for an exception in a ClientApp
Parameters = list[np.ndarray]
Config = dict[str, Any]
Fitted = tuple[Parameters, int, Config]  # what `fit` returns
Scored = tuple[float, int, Config]  # what `evaluate` returns
ClientFactory = Callable[[Context], NumPyClient]
Content = dict[str, ArrayRecord | ConfigRecord | MetricRecord]


def numpy_client_app(make_client: ClientFactory, mods: list[Mod] | None = None) -> ClientApp:
    """An app that makes a client for every message and hands it the message's content."""
    app = ClientApp(mods=[own_records, *(mods or [])])

    @app.query()
    def query(message: Message, context: Context) -> Message:
        return _answer(message, context, lambda: _query(make_client(context), message))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return _answer(message, context, lambda: _train(make_client(context), message))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return _answer(message, context, lambda: _evaluate(make_client(context), message))

    return app


def named_arrays(parameters: Sequence[np.ndarray], config: Mapping[str, Any]) -> Arrays:
    """The arrays that a client was handed, by name."""
    names = str(config[NAMES]).split("\n") if config[NAMES] else []
    return dict(zip(names, parameters, strict=True))


def named_reply(arrays: Arrays, num_examples: int, metrics: Mapping[str, Any]) -> Fitted:
    """What `fit` returns to send `arrays` under their own names."""
    return list(arrays.values()), num_examples, {**metrics, NAMES: "\n".join(arrays)}


def _answer(message: Message, context: Context, work: Callable[[], Content]) -> Message:
    """The reply, or an error reply, the same with every engine."""
    begin = time.perf_counter()
    try:
        content = work()
    except Exception as error:  # every exception of a client must reach the server, which decides
        return error_reply(message, context, error)
    content["timing"] = ConfigRecord({"seconds": time.perf_counter() - begin})
    return Message(RecordDict(dict(content)), reply_to=message)


def error_reply(message: Message, context: Context, error: Exception) -> Message:
    """What the server gets of an exception: what it says, in one line, and in a simulation the traceback before it.

    A real node's traceback tells of its disk and its data, so it goes into the node's own log.
    """
    text = error_text(error)
    if "partition-id" in context.node_config and "node" not in context.node_config:
        return Message(Error(CLIENT_RAISED, text), reply_to=message)
    told, _, line = text.rpartition("\n")
    LOG.error("answered with an error: %s\n%s", line, told)
    return Message(Error(CLIENT_RAISED, line), reply_to=message)


def error_text(error: Exception) -> str:
    """The traceback of an exception, and what it says, in one line."""
    line = f"{type(error).__name__}: {one_line(' '.join(str(error).split()), 2000)}"
    return "".join(traceback.format_exception(error)) + f"\n{line}"


def _check(client: NumPyClient, kind: str, config: Mapping[str, Any]) -> None:
    """InputError for a message that the client, if it says what it answers, does not answer."""
    instruction = getattr(client, "instruction", None)
    if instruction is not None:
        instruction(kind, config).check(config, f"{kind} message")


def _query(client: NumPyClient, message: Message) -> Content:
    return _introduction(client, dict(message.content["config"]))


def _train(client: NumPyClient, message: Message) -> Content:
    record = _record(message)
    said, parameters, config = _task(client, "train", message, record)
    arrays, num_examples, metrics = client.fit(parameters, config)
    names = metrics.pop(NAMES, config[NAMES])
    said = said | _failed(metrics)
    as_asked = packed_record if is_packed(record) else plain_record
    answer = as_asked(named_arrays(arrays, {NAMES: names}))
    return said | {"arrays": answer, "metrics": _metrics(num_examples, metrics)}


def _evaluate(client: NumPyClient, message: Message) -> Content:
    said, parameters, config = _task(client, "evaluate", message, _record(message))
    loss, num_examples, metrics = client.evaluate(parameters, config)
    said = said | _failed(metrics)
    return said | {"metrics": _metrics(num_examples, {"loss": float(loss), **metrics})}


def _failed(metrics: Config) -> Content:
    """What is told of clients that failed, taken out of the metrics of one that stands for them."""
    failed: Any = metrics.pop(FAILED, {})
    return {FAILED: ConfigRecord(failed)} if failed else {}


def _task(
    client: NumPyClient, kind: str, message: Message, record: ArrayRecord
) -> tuple[Content, Parameters, Config]:
    """What a client says of itself where it is asked to, and its task: arrays, and config with their names."""
    config = dict(message.content["config"])
    config.pop("as-partition", None)
    asked = {key: config.pop(key) for key in ("resume-round",) if key in config}
    _check(client, kind, config)
    said = _introduction(client, asked) if asked else {}
    arrays = arrays_of(record)
    return said, list(arrays.values()), {**config, NAMES: "\n".join(arrays)}


def _introduction(client: NumPyClient, asked: Config) -> Content:
    """What a client says of itself before its first task of a run, where the server has not asked it by a query."""
    _check(client, "query", asked)
    return {"properties": ConfigRecord(dict(client.get_properties(asked)))}


def _record(message: Message) -> ArrayRecord:
    record = message.content["arrays"]
    if not isinstance(record, ArrayRecord):
        raise TypeError(f"expected an ArrayRecord under 'arrays', got {type(record).__name__}")
    return record


def _metrics(num_examples: int, metrics: Mapping[str, Any]) -> MetricRecord:
    plain: dict[str, int | float] = {"num-examples": int(num_examples)}
    for key, value in metrics.items():
        if isinstance(value, bool | str | bytes) or not np.isscalar(value):
            raise TypeError(f"metric {key!r} must be a number, got {value!r}")
        plain[key] = value.item() if isinstance(value, np.generic) else value  # type: ignore[assignment]
    return MetricRecord(dict(plain))
