"""Types of constructors and calls, as the stubs tell them to a type checker; never run."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import assert_type

import tileops
import tileops.ops
from tileops.elementwise import AddFwdOp, AlibiFwdOp, DivFwdOp
from tileops.gemm import GemmFp8FwdOp, GemmFwdOp, GemmW4A16FwdOp
from tileops.moe import (
    FusedMoEExpertsFwdOp,
    FusedMoEFwdOp,
    MaskedLayoutSpec,
    MoEGroupedGemmFwdOp,
    RoutingEpilogueSpec,
)
from tileops.norm import FusedAddRMSNormFwdOp, LayerNormBwdOp, RMSNormFwdOp
from tileops.pool import AdaptiveAvgPool2dFwdOp
from tileops.reduction import SumFwdOp

x = torch.ones(2, 64)

# One result, several, one that may be absent, none.
norm = RMSNormFwdOp([64], 1e-6)
assert_type(norm(x), Tensor)
assert_type(norm(x, weight=None), Tensor)
assert_type(FusedAddRMSNormFwdOp()(x, x, x), tuple[Tensor, Tensor])
assert_type(LayerNormBwdOp([64])(x, x), tuple[Tensor, Tensor | None, Tensor])
assert_type(FusedMoEExpertsFwdOp()(x, x, x, x, x, x), None)
assert_type(AlibiFwdOp(seq_len=4, num_heads=2)(), Tensor)

# Calls that do not fit.
norm()  # type: ignore[call-arg]
norm(x, x, x)  # type: ignore[call-arg]
norm(64)  # type: ignore[arg-type]
norm(x, bias=x)  # type: ignore[call-arg]
FusedAddRMSNormFwdOp()(x, x)  # type: ignore[call-arg]
norm(x).bias = x  # type: ignore[attr-defined]

# Constructors: lists, dtypes, literals, numbers, algebraic types, classes by name.
RMSNormFwdOp(64)  # type: ignore[arg-type]
RMSNormFwdOp()  # type: ignore[call-arg]
RMSNormFwdOp([64], target=1)  # type: ignore[arg-type]
RMSNormFwdOp([64], 1e-6, None)  # type: ignore[call-arg]
GemmFp8FwdOp(torch.float16)
GemmFp8FwdOp("float16")  # type: ignore[arg-type]
DivFwdOp(rounding_mode="trunc")
DivFwdOp(rounding_mode="up")  # type: ignore[arg-type]
AddFwdOp(alpha=2)
AddFwdOp(alpha="2")  # type: ignore[arg-type]
SumFwdOp(dim=(0, 1))
SumFwdOp(dim=0.5)  # type: ignore[arg-type]
AdaptiveAvgPool2dFwdOp((None, 7))
grouped = MoEGroupedGemmFwdOp(MaskedLayoutSpec(max_m=8), activation=None)
assert_type(grouped(x, x, x, out=x), Tensor)
MoEGroupedGemmFwdOp("masked")  # type: ignore[arg-type]
FusedMoEFwdOp(2, experts=FusedMoEExpertsFwdOp())
FusedMoEFwdOp(2, experts=norm)  # type: ignore[arg-type]
RoutingEpilogueSpec(1.0)

# What a class has beyond its spec stays, and it is an op.
assert_type(GemmW4A16FwdOp.repack(x), Tensor)
op: tileops.Op = norm
assert_type(norm.serving_target, str | None)

# By whichever name it is reached.
assert_type(tileops.ops.GemmFwdOp()(x, x), Tensor)
assert_type(tileops.gemm.GemmFwdOp(), GemmFwdOp)
assert_type(tileops.ops.GemmFwdOp(), GemmFwdOp)
