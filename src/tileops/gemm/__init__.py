"""Matrix products."""

