"""Values that the moe ops take as parameters, and the classes of what may be injected into them.

Values are immutable and hashable, since they enter call specs.
"""

from tileops.moe.types.epilogue import RoutingEpilogueSpec
from tileops.moe.types.layouts import (
    ContiguousLayoutSpec,
    ContiguousMetadata,
    ContiguousPacking,
    MaskedLayoutSpec,
)
from tileops.moe.types.protocol import (
    FusedMoEExperts,
    FusedMoEExpertsModular,
    FusedMoEPrepareAndFinalize,
    MoEPrepareAndFinalizeNoDPEP,
    PrepareResult,
    WeightedReduce,
    WeightedReduceNoOp,
)

__all__ = [
    "ContiguousLayoutSpec",
    "ContiguousMetadata",
    "ContiguousPacking",
    "FusedMoEExperts",
    "FusedMoEExpertsModular",
    "FusedMoEPrepareAndFinalize",
    "MaskedLayoutSpec",
    "MoEPrepareAndFinalizeNoDPEP",
    "PrepareResult",
    "RoutingEpilogueSpec",
    "WeightedReduce",
    "WeightedReduceNoOp",
]
