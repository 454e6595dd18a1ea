"""TileOPs family: attention."""
