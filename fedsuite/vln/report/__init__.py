"""Tables and plots of FedVLN runs."""
