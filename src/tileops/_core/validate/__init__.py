"""TileOPs machinery: validate."""
