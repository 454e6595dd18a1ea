"""The tests that every op passes, each run over calls drawn from the op's spec alone."""
