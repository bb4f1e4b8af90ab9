"""The steering networks."""
