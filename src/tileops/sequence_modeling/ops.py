"""Residual streams of several copies that mix from layer to layer."""

from __future__ import annotations

from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.manifest.primitives import mhc
from tileops.sequence_modeling.kernels import (
    MHCPostCall,
    MHCPostFwdInterface,
    MHCPostPointwiseKernel,
    MHCPostPortableKernel,
    MHCPreCall,
    MHCPreFewRowsKernel,
    MHCPreFwdInterface,
    MHCPrePortableKernel,
)

__all__ = ["MHCPreFwdOp", "MHCPostFwdOp"]


class MHCPreFwdOp(Op):
    """What precedes a layer: the mixed stream, the layer's input, and the gates of its result.

    The stream, scaled by its root mean square, is projected onto coefficients. Those of the input
    and of the result pass through a sigmoid, twice as high for the result; the matrix that mixes
    the copies is made doubly stochastic by Sinkhorn's iteration. All of it is float32.

    Source: manifold-constrained hyper-connections, Xie et al. 2025.
    """

    kernel_types = {"few_rows": MHCPreFewRowsKernel, "portable": MHCPrePortableKernel}
    interfaces = {"mhc_pre": MHCPreFwdInterface}

    def __init__(
        self,
        alpha_pre: float,
        alpha_post: float,
        alpha_res: float,
        sinkhorn_repeat: int,
        sinkhorn_eps: float = 0.02,
        *,
        target: str | None = None,
    ) -> None:
        self.alpha_pre = alpha_pre
        self.alpha_post = alpha_post
        self.alpha_res = alpha_res
        self.sinkhorn_repeat = sinkhorn_repeat
        self.sinkhorn_eps = sinkhorn_eps
        super().__init__(target=target)

    def forward(self, phi: Tensor, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mix the stream."""
        n = mhc.expansion(phi.shape[1])
        call = MHCPreCall(
            n=n,
            c_x=x.shape[1] // n,
            alpha_pre=self.alpha_pre,
            alpha_post=self.alpha_post,
            alpha_res=self.alpha_res,
            sinkhorn_repeat=self.sinkhorn_repeat,
            sinkhorn_eps=self.sinkhorn_eps,
            rows=x.shape[0],
            device=x.device,
        )
        return self.kernel_for("mhc_pre", call)(phi, x, b)

    def roof_key(self) -> str:
        """The tensor-core unit of float32 projections."""
        return tensor_core("float32")


class MHCPostFwdOp(Op):
    """What follows a layer: its result, times the gate of each copy, added to the mixed stream.

    `x_out[i] = x_res[i] + h_post[i] * x_layer_out` for each copy `i`, in float32, rounded once.
    """

    kernel_types = {"pointwise": MHCPostPointwiseKernel, "portable": MHCPostPortableKernel}
    interfaces = {"mhc_post": MHCPostFwdInterface}

    def forward(self, x_layer_out: Tensor, h_post: Tensor, x_res: Tensor) -> Tensor:
        """Add the layer's result to the stream."""
        call = MHCPostCall(h_post.shape[1], x_layer_out.shape[1], device=x_res.device)
        return self.kernel_for("mhc_post", call)(x_layer_out, h_post, x_res)
