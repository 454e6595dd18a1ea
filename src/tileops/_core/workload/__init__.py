"""TileOPs machinery: workload."""
