"""Specs as data: files and mappings to a frozen model with places, and the registry of all."""
