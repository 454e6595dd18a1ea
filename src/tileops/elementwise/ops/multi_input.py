"""Functions of three broadcasting tensors."""

from __future__ import annotations

from torch import Tensor

from tileops.elementwise.ops.pointwise import TernaryOp

__all__ = [
    "WhereFwdOp",
    "LerpTensorFwdOp",
]


class WhereFwdOp(TernaryOp):
    """`input` where `condition` is true, else `other`. Source: `torch.where`."""

    function = "where"

    def forward(self, condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
        """Choose between `input` and `other` for each element."""
        return self.apply("ternary", input, condition, input, other)


class LerpTensorFwdOp(TernaryOp):
    """`input + weight * (end - input)`, exact where a weight is 0 or 1.

    Source: `torch.lerp`.
    """

    function = "lerp"

    def forward(self, input: Tensor, end: Tensor, weight: Tensor) -> Tensor:
        """Interpolate between `input` and `end`."""
        return self.apply("ternary", input, input, end, weight)
