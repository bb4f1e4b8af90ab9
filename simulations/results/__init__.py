"""Commands that look at runs: report, export, watch."""
