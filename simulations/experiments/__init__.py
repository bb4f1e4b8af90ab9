"""From what was typed to runs, their comparison and their tables."""
