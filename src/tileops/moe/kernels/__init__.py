"""Kernel interfaces of the moe family and their plain-torch implementations, a module for each."""
