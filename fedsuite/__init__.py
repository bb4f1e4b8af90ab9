"""fedsuite: federated embodied learning. The cores live here and know neither Flower nor Ray."""

__version__ = "0.1.0"
