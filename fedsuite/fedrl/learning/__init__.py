"""Parties: Q-networks, noise, replay, targets, tests."""
