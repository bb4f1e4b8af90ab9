"""Attacks as functions of arrays: one file, one attack, each with what is known of it and where it comes from."""
