"""Choosing the implementation of a kernel interface for one call, and what it is chosen from."""
