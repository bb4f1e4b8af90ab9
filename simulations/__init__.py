"""The Flower app, its engines, the command line and one TOML per experiment."""
