"""Taking the frames and scores of runs to other tools."""
