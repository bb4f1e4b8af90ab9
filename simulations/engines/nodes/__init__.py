"""The engine that runs on SuperNodes of a running SuperLink."""
