"""TileOPs machinery."""
