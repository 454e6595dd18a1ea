"""Op classes of the elementwise family, a module for each group of the operator tables.

Arithmetic of 16-bit floats is float32 and rounded once; integers wrap.
"""

from typing import TYPE_CHECKING

from tileops.elementwise.ops import (
    binary,
    fused_gated,
    generative,
    multi_input,
    unary_activation,
    unary_math,
)
from tileops.elementwise.ops.binary import *  # noqa: F403
from tileops.elementwise.ops.fused_gated import *  # noqa: F403
from tileops.elementwise.ops.generative import *  # noqa: F403
from tileops.elementwise.ops.multi_input import *  # noqa: F403
from tileops.elementwise.ops.unary_activation import *  # noqa: F403
from tileops.elementwise.ops.unary_math import *  # noqa: F403

if not TYPE_CHECKING:  # Type checkers read literal lists only; the star imports tell them all.
    __all__ = [
        *unary_activation.__all__,
        *unary_math.__all__,
        *binary.__all__,
        *multi_input.__all__,
        *fused_gated.__all__,
        *generative.__all__,
    ]
