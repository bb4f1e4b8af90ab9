"""Parts of the Matterport3D Simulator without rendering. Entry: `fedsuite.vln.mattersim`."""
