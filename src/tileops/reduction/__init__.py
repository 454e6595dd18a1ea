"""Reductions over axes."""

