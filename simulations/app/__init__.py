"""What the Flower app is made from: its configuration, own nodes, an estimate of messages, `run` in Python."""
