"""TileOPs family: norm."""
