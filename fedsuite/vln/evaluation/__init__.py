"""Scores of agents and speakers."""
