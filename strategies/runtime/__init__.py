"""What drives every strategy: round loop, messages, checks of replies, membership."""
