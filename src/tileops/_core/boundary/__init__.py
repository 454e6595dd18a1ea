"""The compile boundary: an op as registered operators, found again by instance key."""
