"""What `fedsuite deploy` writes for each node: certificates, keys, service units, an address."""
