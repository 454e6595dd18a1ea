"""TileOPs family: reduction."""
