"""CDL: decentralised federated driving. Roads, frames, networks, contrastive divergence, topologies, mixing, cycle time."""
