"""Local methods that end with a model of the client's own, one file each; `blending.py` is what two of them share."""
