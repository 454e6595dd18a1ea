"""TileOPs family: gemm."""
