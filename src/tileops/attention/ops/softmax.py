"""The base of dense and packed attention and of their gradients."""

from __future__ import annotations

from typing import Literal

import torch

from tileops._core.op import Op
from tileops._core.op.units import tensor_core


class SoftmaxAttentionOp(Op):
    """The parameters of attention; a subclass builds the call spec."""

    out_dtype: torch.dtype | None = None

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        *,
        target: str | None = None,
    ) -> None:
        self.is_causal = is_causal
        self.window_size_left = window_size_left
        self.window_size_right = window_size_right
        self.sm_scale = sm_scale
        self.softcap = softcap
        self.pos_encoding_mode = pos_encoding_mode
        self.rotary_dim = rotary_dim
        self.rope_layout = rope_layout
        super().__init__(target=target)

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["T"])
