"""Ways to run the same server and client apps: in this process, with Ray workers, on real nodes."""
