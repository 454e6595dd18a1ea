"""Op classes of the moe family."""

from typing import TYPE_CHECKING

from tileops.moe.ops import experts, fused, indexed, permute, routing
from tileops.moe.ops.experts import *  # noqa: F403
from tileops.moe.ops.fused import *  # noqa: F403
from tileops.moe.ops.indexed import *  # noqa: F403
from tileops.moe.ops.permute import *  # noqa: F403
from tileops.moe.ops.routing import *  # noqa: F403

if not TYPE_CHECKING:  # Type checkers read literal lists only; the star imports tell them all.
    __all__ = [
        *routing.__all__,
        *permute.__all__,
        *experts.__all__,
        *indexed.__all__,
        *fused.__all__,
    ]
