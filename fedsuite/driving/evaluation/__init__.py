"""Predictions and errors."""
