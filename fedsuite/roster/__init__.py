"""Who takes part: the roster and its members, a node's own file, what a node reports, clients with the same data."""
