"""CDL wired to the app, beside its configurations."""
