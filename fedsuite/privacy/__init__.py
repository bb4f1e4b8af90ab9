"""Noise on what leaves a party, and what guarantee it amounts to."""
