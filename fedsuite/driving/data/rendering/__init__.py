"""Drawing of front-camera frames from a pose: cameras, textures, light, road and corridor scenes, pose laws, presets."""
