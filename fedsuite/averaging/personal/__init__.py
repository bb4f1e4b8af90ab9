"""Local methods that give a client a model of its own, a file each; `blending.py` is what two of them share."""
