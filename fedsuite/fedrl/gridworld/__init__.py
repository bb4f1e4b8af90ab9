"""Grid-World: two agents on a map of obstacles that have to meet, each seeing only a window around itself."""
