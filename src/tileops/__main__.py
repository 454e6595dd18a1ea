"""`python -m tileops`, the same as `tileops`."""

from __future__ import annotations

import sys

from tileops.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
