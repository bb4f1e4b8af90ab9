"""Frames of silos: generated roads, recorded drives, their readers and their preparation."""
