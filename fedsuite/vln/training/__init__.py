"""Rollouts, losses and local training of agents and speakers."""
