"""Benchmarks: `python -m benchmarks.NAME` prints readable lines and, last, one JSON object with name, ratio and goal."""
