"""What travels between server and client: instructions as tables, and arrays as bytes."""
