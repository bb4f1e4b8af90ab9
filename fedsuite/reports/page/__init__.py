"""Reports of runs: read and reduced run by run, built once as sections, shown in several formats."""
