"""Op classes of the linear_attention family; states are float32."""

from typing import TYPE_CHECKING

from tileops.linear_attention.ops import chunked, decode, forward, gradients
from tileops.linear_attention.ops.chunked import *  # noqa: F403
from tileops.linear_attention.ops.decode import *  # noqa: F403
from tileops.linear_attention.ops.forward import *  # noqa: F403
from tileops.linear_attention.ops.gradients import *  # noqa: F403

if not TYPE_CHECKING:  # Type checkers read literal lists only; the star imports tell them all.
    __all__ = [*forward.__all__, *gradients.__all__, *chunked.__all__, *decode.__all__]
