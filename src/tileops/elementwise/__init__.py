"""TileOPs family: elementwise."""
