"""The folder of a run, and the versions of state in it that a resume goes back to."""
