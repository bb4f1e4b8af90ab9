"""FedVLN: vision-and-language navigation, one house per client (Zhou & Wang 2022)."""
