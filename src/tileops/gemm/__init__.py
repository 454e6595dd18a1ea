"""Matrix products."""

from tileops.gemm.ops import *  # noqa: F403
from tileops.gemm.ops import __all__ as __all__
