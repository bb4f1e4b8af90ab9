"""A federation on real machines: its programs, and what makes them quick."""
