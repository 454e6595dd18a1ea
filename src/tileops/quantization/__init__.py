"""Numbers to codes of fewer bits, and back."""

from tileops.quantization.ops import *  # noqa: F403
from tileops.quantization.ops import __all__ as __all__
