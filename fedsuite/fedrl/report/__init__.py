"""Tables and plots of FedRL runs."""
