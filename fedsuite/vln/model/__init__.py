"""The agent and the speaker."""
