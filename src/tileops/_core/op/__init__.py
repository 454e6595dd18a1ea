"""TileOPs machinery: op."""
