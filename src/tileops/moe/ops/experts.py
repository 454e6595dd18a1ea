"""Gated expert layers: the grouped product, and what is composed of products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops._core.op.units import tensor_core
from tileops.elementwise import SiluAndMulFwdOp
from tileops.gemm import GemmFwdOp
from tileops.moe import roofline
from tileops.moe.kernels.grouped_gemm import (
    Activation,
    MoEGroupedGemmCall,
    MoEGroupedGemmFwdInterface,
    MoEGroupedGemmPipelinedKernel,
    MoEGroupedGemmPortableKernel,
)

if TYPE_CHECKING:
    from tileops.moe.types.layouts import Layout

__all__ = ["MoEGroupedGemmFwdOp", "MoEExpertMLPFwdOp", "SharedExpertMLPFwdOp"]


class _ExpertOp(Op):
    """An op whose FLOPs are multiply-adds of operands of dtype `D`."""

    def roof_key(self) -> str:
        """The tensor-core unit of the last call's dtype."""
        return tensor_core(self.last_call.indices["D"])


class MoEGroupedGemmFwdOp(_ExpertOp):
    """The product of each expert's rows with its weights, `a_e @ b_e.T`.

    With an activation the weights hold gates, then values, and the result is
    `act(y[:, :N]) * y[:, N:]`. Sums are float32 and rounded once; `gelu_and_mul` is the exact GELU.
    Rows that belong to no expert are unspecified in the result.
    """

    kernel_types = {
        "pipelined": MoEGroupedGemmPipelinedKernel,
        "portable": MoEGroupedGemmPortableKernel,
    }
    interfaces = {"grouped_gemm": MoEGroupedGemmFwdInterface}

    def __init__(
        self,
        layout: Layout,
        *,
        activation: Activation | None = None,
        out_dtype: torch.dtype | None = None,
        target: str | None = None,
    ) -> None:
        self.layout = layout
        self.activation = activation
        self.out_dtype = out_dtype
        super().__init__(target=target)

    def forward(
        self, a: Tensor, b: Tensor, layout_metadata: Tensor, out: Tensor | None = None
    ) -> Tensor:
        """Multiply each expert's rows."""
        experts, columns, k = b.shape
        n = columns if self.activation is None else columns // 2
        if out is None:
            out = a.new_empty(*a.shape[:-1], n, dtype=self.out_dtype or a.dtype)
        call = MoEGroupedGemmCall(
            layout=self.layout,
            experts=experts,
            rows=a.numel() // k,
            n=n,
            k=k,
            activation=self.activation,
            dtype=a.dtype,
            out_dtype=out.dtype,
            device=a.device,
        )
        self.kernel_for("grouped_gemm", call)(a, b, layout_metadata, out)
        return out

    def eval_roofline_read_bytes(self) -> int:
        """The bytes of the roofline less the rows written, which are those of some expert."""
        return self.eval_roofline()[1] - roofline.rows_written(self.last_call, "output")


class MoEExpertMLPFwdOp(_ExpertOp):
    """The gated layer of each expert, `(act(x @ gate.T) * (x @ up.T)) @ down.T`.

    Two grouped products; the activation is float32, the intermediate in the inputs' dtype. Rows
    that belong to no expert are unspecified in the result.
    """

    delegate_types = {"gate_up": MoEGroupedGemmFwdOp, "down": MoEGroupedGemmFwdOp}

    def __init__(
        self,
        layout: Layout,
        activation: Activation = "silu_and_mul",
        *,
        target: str | None = None,
    ) -> None:
        self.layout = layout
        self.activation = activation
        super().__init__(target=target)
        self.delegate_for("gate_up", None, layout=layout, activation=activation)
        self.delegate_for("down", None, layout=layout)

    def forward(
        self,
        expert_input: Tensor,
        w_gate_up: Tensor,
        w_down: Tensor,
        layout_metadata: Tensor,
        out: Tensor | None = None,
    ) -> Tensor:
        """Run each expert on its rows."""
        gate_up, down = self.delegate_for("gate_up", None), self.delegate_for("down", None)
        hidden = gate_up(expert_input, w_gate_up, layout_metadata)
        return down(hidden, w_down, layout_metadata, out=out)

    def eval_roofline_read_bytes(self) -> int:
        """The bytes of the roofline less the rows written, which are those of some expert."""
        return self.eval_roofline()[1] - roofline.rows_written(self.last_call, "output")


class SharedExpertMLPFwdOp(_ExpertOp):
    """The gated layer that every token passes, `silu_and_mul(x @ w_gate_up.T) @ w_down.T`.

    Two products with an activation between them; both intermediates are in the inputs' dtype.
    """

    delegate_types = {"gate_up": GemmFwdOp, "activation": SiluAndMulFwdOp, "down": GemmFwdOp}

    def __init__(self, *, target: str | None = None) -> None:
        super().__init__(target=target)
        for stage in self.delegate_types:
            self.delegate_for(stage, None)

    def forward(self, hidden_states: Tensor, w_gate_up: Tensor, w_down: Tensor) -> Tensor:
        """Run the expert on every token."""
        gate_up, activation, down = (self.delegate_for(s, None) for s in self.delegate_types)
        return down(activation(gate_up(hidden_states, w_gate_up)), w_down)
