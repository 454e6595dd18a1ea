"""TileOPs machinery: dispatch."""
