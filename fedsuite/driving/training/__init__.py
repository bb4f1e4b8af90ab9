"""Local training of silos: the contrastive divergence loss and its parts."""
