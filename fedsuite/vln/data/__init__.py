"""What a house knows: graphs, views, instructions, their readers and their preparation."""
