"""TileOPs machinery: lang."""
