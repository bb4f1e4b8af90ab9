"""Settings: declared keys and their limits, the values of TOML and --set, devices, keys that have no effect."""
