"""Normalisation ops."""

