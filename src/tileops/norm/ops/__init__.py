"""Op classes of the norm family: each flattens its tensors and hands them to a kernel interface."""

from typing import TYPE_CHECKING

from tileops.norm.ops import channels, fused, gradients, rows
from tileops.norm.ops.channels import *  # noqa: F403
from tileops.norm.ops.fused import *  # noqa: F403
from tileops.norm.ops.gradients import *  # noqa: F403
from tileops.norm.ops.rows import *  # noqa: F403

if not TYPE_CHECKING:  # Type checkers read literal lists only; the star imports tell them all.
    __all__ = [*rows.__all__, *gradients.__all__, *fused.__all__, *channels.__all__]
