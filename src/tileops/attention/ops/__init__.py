"""Op classes of the attention family; scores, softmax and sums are float32."""

from typing import TYPE_CHECKING

from tileops.attention.ops import dense, gradients, latent, paged, varlen
from tileops.attention.ops.dense import *  # noqa: F403
from tileops.attention.ops.gradients import *  # noqa: F403
from tileops.attention.ops.latent import *  # noqa: F403
from tileops.attention.ops.paged import *  # noqa: F403
from tileops.attention.ops.varlen import *  # noqa: F403

if not TYPE_CHECKING:  # Type checkers read literal lists only; the star imports tell them all.
    __all__ = [*dense.__all__, *gradients.__all__, *varlen.__all__, *paged.__all__, *latent.__all__]
