"""Local methods with which a client ends up with a model of its own, one file each; `blending.py` is what two of them share."""
