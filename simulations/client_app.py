"""The Flower ClientApp of every system: finds the system in the run-config and lets it make the client."""

from flwr.app import Context, Message
from flwr.client import NumPyClient
from flwr.clientapp.typing import ClientAppCallable

from clients.numpy_client_app import numpy_client_app
from fedsuite.machine import keep_freed_memory
from simulations.systems import settings_of

THREADS = "client-threads"


def make_client(context: Context) -> NumPyClient:
    """The client of this node."""
    system, _ = settings_of(context.run_config)
    return system.make_client(context)


def with_threads(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer with `client-threads` torch threads: the order of sums, and so their last bits, depend on their number."""
    import torch

    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(int(context.run_config.get(THREADS, 1)))
    try:
        return call_next(message, context)
    finally:
        torch.set_num_threads(before)


app = numpy_client_app(make_client, mods=[with_threads])
