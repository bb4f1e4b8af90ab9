"""Ways to run the same server and client apps: in this process, or on Flower's Ray simulation."""
