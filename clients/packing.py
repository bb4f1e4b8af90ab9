"""Flower mods between what goes over the wire and what a client wants: records one by one, and arrays one by one."""

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable

from strategies.runtime.one_record import in_one, is_in_one, parted
from strategies.runtime.packing import arrays_of, is_packed, packed_record, plain_record


def plain_arrays(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A mod: what comes after it gets arrays one by one, and what it answers is packed if the question was."""
    asked = message.content.get("arrays")
    if not isinstance(asked, ArrayRecord) or not is_packed(asked):
        return call_next(message, context)
    message.content["arrays"] = plain_record(arrays_of(asked))
    reply = call_next(message, context)
    answer = None if reply.has_error() else reply.content.get("arrays")
    if isinstance(answer, ArrayRecord):
        reply.content["arrays"] = packed_record(arrays_of(answer))
    return reply


def own_records(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A mod: what comes after it gets a message's records one by one, and its answer is one record if the question was."""
    if not is_in_one(message.content):
        return call_next(message, context)
    message.content = parted(message.content)
    reply = call_next(message, context)
    if reply.has_content():
        reply.content = in_one(reply.content)
    return reply
