"""TileOPs machinery: runtime."""
