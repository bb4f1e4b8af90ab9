"""Text2Action: reading a text word by word, choosing the words that name actions, or their arguments."""
