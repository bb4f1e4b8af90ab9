"""The side of benchmarks/peers.py that is Flower alone: its FedAvg, a ClientApp, and its simulation with two actors.

Flower's strategy draws its clients anew in every run; here it asks those that the other sides ask, and says to each whose
data it has. All else is Flower's own.
"""

from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import ray
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.backend.backend import BackendConfig
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import sample_nodes
from flwr.simulation import run_simulation

from benchmarks.peer_work import ROWS, WORKERS, WORKS, Merged, Weights, asked, initial, visit

CLIENT = ClientApp()


@CLIENT.train()
def train(message: Message, context: Context) -> Message:
    """One visit."""
    torch.set_num_threads(1)
    said = message.content.config_records["config"]
    name, partition, number = said["work"], said["partition"], said["server-round"]
    assert isinstance(name, str) and isinstance(partition, int) and isinstance(number, int)
    state = message.content.array_records["arrays"].to_torch_state_dict()
    trained = ArrayRecord(visit(name, dict(state), partition, number))
    counted = MetricRecord({"num-examples": ROWS})
    return Message(RecordDict({"arrays": trained, "metrics": counted}), reply_to=message)


class Asking(FedAvg):
    """FedAvg of the given clients, without evaluation."""

    def __init__(self, name: str, merged: Merged) -> None:
        super().__init__(fraction_evaluate=0.0)
        self.name, self.merged = name, merged

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        work = WORKS[self.name]
        nodes, _ = sample_nodes(grid, work.clients, work.clients)  # waits until all are there
        nodes.sort()
        for partition in asked(work, server_round):
            said = ConfigRecord({"work": self.name, "partition": partition})
            said["server-round"] = server_round
            content = RecordDict({"arrays": arrays, "config": said})
            yield Message(content, message_type="train", dst_node_id=nodes[partition])

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        found = list(replies)
        if len(found) < WORKS[self.name].asked or any(reply.has_error() for reply in found):
            raise RuntimeError(f"round {server_round}: not every client answered")
        made = super().aggregate_train(server_round, found)
        self.merged()
        return made


def play(name: str, rounds: int, merged: Merged, folder: Path) -> Weights:
    """The final weights; folder: for Ray's own files."""
    server, kept = ServerApp(), Weights()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Asking(name, merged)
        result = strategy.start(grid, ArrayRecord(initial(name)), num_rounds=rounds)
        kept.update({k: v.numpy() for k, v in result.arrays.items()})

    config: BackendConfig = {
        "init_args": {
            "num_cpus": WORKERS,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": str(folder / "ray"),
        },
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    # Ray would put the machine's own address in the place of 127.0.0.1, and listen there.
    with patch.object(ray._private.services, "resolve_ip_for_localhost", str):
        run_simulation(server, CLIENT, WORKS[name].clients, backend_config=config)
    ray.shutdown()
    return kept
