"""TileOPs machinery: targets."""
