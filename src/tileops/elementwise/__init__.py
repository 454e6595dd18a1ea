"""Pointwise ops."""

