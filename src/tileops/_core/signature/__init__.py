"""TileOPs machinery: signature."""
