"""Whether a deployment can start, who has joined it, and what it costs."""
