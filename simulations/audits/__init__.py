"""Attacks on finished runs: what their messages and models tell, measured."""
