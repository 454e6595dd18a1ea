"""TileOPs machinery: spec."""
