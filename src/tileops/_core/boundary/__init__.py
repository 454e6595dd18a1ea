"""TileOPs machinery: boundary."""
