"""An op pack for TileOPs: soft-capped logits.

Importing the package imports neither torch nor the op classes, so that listing ops stays quick; the
classes are in `tileops_example_pack.ops`.
"""

from __future__ import annotations

from pathlib import Path

SPEC = Path(__file__).with_name("spec.yaml")
"""The specs of the pack, which the entry point of group `tileops.ops` names."""
