"""What a silo beside its own drives alone (fedsuite.roster.node) cannot do."""

from fedsuite.driving.config import CDLConfig
from fedsuite.errors import InputError
from fedsuite.roster.node import NodeSettings


def accepts(config: CDLConfig, node: NodeSettings) -> None:
    """InputError for ways to make silos of drives that need all drives in one place."""
    own = config.data
    for key, value in (("num-silos", own.num_silos), ("dirichlet", own.dirichlet)):
        if own.dir and value:
            raise InputError(
                f"data.{key}: the run wants {value:g}, which deals the frames of all drives anew, but this node has its "
                "own drives only; allowed: 0"
            )
