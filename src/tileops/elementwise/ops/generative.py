"""Tensors made of parameters alone."""

from __future__ import annotations

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.elementwise.kernels import (
    AlibiCall,
    AlibiFwdInterface,
    AlibiPortableKernel,
    AlibiTileKernel,
    SinusoidalCall,
    SinusoidalFwdInterface,
    SinusoidalPortableKernel,
    SinusoidalTileKernel,
)

__all__ = [
    "AlibiFwdOp",
    "SinusoidalFwdOp",
]


class AlibiFwdOp(Op):
    """Attention biases linear in the distance: `-2^(-8 (h + 1) / num_heads) * abs(i - j)`.

    The slope formula holds for every head count. Computed in float32; in float16 a head whose
    bias passes -65504 becomes -inf.

    Source: Press et al., "Train Short, Test Long", 2021.
    """

    kernel_types = {"tile": AlibiTileKernel, "portable": AlibiPortableKernel}
    interfaces = {"alibi": AlibiFwdInterface}

    def __init__(
        self,
        *,
        seq_len: int,
        num_heads: int,
        out_dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        target: str | None = None,
    ) -> None:
        self.seq_len = seq_len
        self.num_heads = num_heads
        self.out_dtype = out_dtype
        self.device = device
        super().__init__(target=target)

    def forward(self) -> Tensor:
        """Make the biases on the call device."""
        device = None if self.device is None else torch.device(self.device)
        call = AlibiCall(self.seq_len, self.num_heads, self.out_dtype, device=device)
        return self.kernel_for("alibi", call)()


class SinusoidalFwdOp(Op):
    """Position embeddings: `sin(p / 10000^(2i / d_model))` in channel `2i`, then the cosine.

    The angle is formed in float32 or wider, also for 16-bit results.

    Source: Vaswani et al., "Attention Is All You Need", 2017.
    """

    kernel_types = {"tile": SinusoidalTileKernel, "portable": SinusoidalPortableKernel}
    interfaces = {"sinusoidal": SinusoidalFwdInterface}

    def __init__(
        self,
        *,
        seq_len: int,
        d_model: int,
        out_dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        target: str | None = None,
    ) -> None:
        self.seq_len = seq_len
        self.d_model = d_model
        self.out_dtype = out_dtype
        self.device = device
        super().__init__(target=target)

    def forward(self) -> Tensor:
        """Make the embeddings on the call device."""
        device = None if self.device is None else torch.device(self.device)
        call = SinusoidalCall(self.seq_len, self.d_model, self.out_dtype, device=device)
        return self.kernel_for("sinusoidal", call)()
