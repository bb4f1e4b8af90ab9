"""FedVLN wired to the app, beside its configurations."""
