"""Checkers that hold strategies, clients, environments and topologies of anybody to this project's contracts.

Each raises ContractError for the first clause that is broken: what was expected, what came, the likely cause. They are
meant for the tests of whoever extends fedsuite; simulations.check_system holds a whole System to its contract.
"""

from fedsuite.checking.contract import ContractError, echo
from fedsuite.checking.environment import check_environment
from fedsuite.checking.numpy_client import check_client
from fedsuite.checking.strategy import check_strategy
from fedsuite.checking.topology import check_topology

__all__ = [
    "ContractError",
    "check_client",
    "check_environment",
    "check_strategy",
    "check_topology",
    "echo",
]
