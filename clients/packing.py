"""A Flower mod for clients that want a message's arrays one by one, as Flower has them."""

from flwr.app import ArrayRecord, Context, Message
from flwr.clientapp.typing import ClientAppCallable

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
