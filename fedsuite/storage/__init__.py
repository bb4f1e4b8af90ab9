"""Files: read and written whole or not at all, read once, deleted only where we wrote them, escaped for each format."""
