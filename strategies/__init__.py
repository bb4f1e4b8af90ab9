"""Server side: the round loop and the Flower strategies that it runs."""
