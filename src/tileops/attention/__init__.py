"""Softmax attention."""

