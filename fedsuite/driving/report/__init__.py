"""Tables and plots of CDL runs."""
