"""The engine that runs clients as Ray workers under Flower's simulation."""
