"""TileOPs machinery: codegen."""
