"""The one error of the demo that the caller can fix."""

from __future__ import annotations

from tileops.errors import TileOpsError


class DemoInputError(TileOpsError, ValueError):
    """Sentences, weights or a device that the demo cannot use; the text says what to do."""
