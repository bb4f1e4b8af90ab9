"""Client side: Flower NumPyClients around one house, party or vehicle."""
