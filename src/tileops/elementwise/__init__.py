"""Pointwise ops."""
