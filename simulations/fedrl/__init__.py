"""FedRL wired to the app, beside its configurations."""
