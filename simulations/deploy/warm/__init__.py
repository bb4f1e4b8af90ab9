"""Client processes that start warm: a server that has everything imported forks one for each message."""
