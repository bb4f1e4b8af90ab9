"""A run in the terminal while it goes on, from its folder alone."""
