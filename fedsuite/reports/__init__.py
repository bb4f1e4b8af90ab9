"""Tables and plots of finished runs."""
