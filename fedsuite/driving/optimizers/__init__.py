"""Local optimizers of silos: rules that look across mixing steps, and the table that settings choose from."""
