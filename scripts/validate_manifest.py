"""The validator's stable path for CI: `python scripts/validate_manifest.py [OP …]`.

The same as `tileops validate`, from a checkout, installed or not.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from tileops.cli import main

if __name__ == "__main__":
    sys.exit(main(["validate", *sys.argv[1:]]))
