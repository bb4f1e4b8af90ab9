"""Clients that send something else than what they learnt: attacks, and the settings that choose them."""
