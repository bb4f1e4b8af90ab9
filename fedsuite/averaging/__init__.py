"""Averaging for every system: means and robust merges, server optimizers, control variates, penalties, their settings."""
