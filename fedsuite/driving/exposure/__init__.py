"""What silos of a finished CDL run give away: an audit's attacks on it."""
