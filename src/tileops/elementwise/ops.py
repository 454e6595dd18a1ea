"""Pointwise ops: an op names its function, the bases build the call spec.

Arithmetic of 16-bit floats is float32 and rounded once; integers wrap.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.elementwise.kernels import (
    AlibiCall,
    AlibiFwdInterface,
    AlibiPortableKernel,
    BinaryFwdInterface,
    GatedCall,
    GatedFwdInterface,
    GatedPortableKernel,
    PointwiseCall,
    PointwisePortableKernel,
    TernaryFwdInterface,
    UnaryFwdInterface,
)

__all__ = [
    "SiluFwdOp",
    "GeluFwdOp",
    "ClampTensorFwdOp",
    "ExpFwdOp",
    "RsqrtFwdOp",
    "AddFwdOp",
    "MulFwdOp",
    "DivFwdOp",
    "MaskedFillScalarFwdOp",
    "WhereFwdOp",
    "SiluAndMulFwdOp",
    "AlibiFwdOp",
]


class _PointwiseOp(Op):
    """Applies `function` with the parameters named in `settings` to broadcast operands."""

    kernel_types = {"portable": PointwisePortableKernel}
    function: ClassVar[str]
    settings: ClassVar[tuple[str, ...]] = ()

    def _kernel(self, interface: str, data: Tensor, *, inplace: bool = False) -> Any:
        """The kernel for operands of `data`'s dtype and device."""
        settings = tuple((name, getattr(self, name)) for name in self.settings)
        call = PointwiseCall(self.function, data.dtype, settings, inplace, device=data.device)
        return self.kernel_for(interface, call)


class _UnaryOp(_PointwiseOp):
    """A function of one tensor."""

    interfaces = {"unary": UnaryFwdInterface}

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function to each element of `input`."""
        return self._kernel("unary", input)(input)


class _InplaceUnaryOp(_UnaryOp):
    """A function of one tensor that may write its result into it."""

    settings = ("inplace",)

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        self.inplace = inplace
        super().__init__(target=target)

    def forward(self, input: Tensor) -> Tensor:
        """Apply the function to each element of `input`."""
        return self._kernel("unary", input, inplace=self.inplace)(input)


class _BinaryOp(_PointwiseOp):
    """A function of two tensors."""

    interfaces = {"binary": BinaryFwdInterface}

    def forward(self, input: Tensor, other: Tensor) -> Tensor:
        """Apply the function to each pair of elements."""
        return self._kernel("binary", input)(input, other)


class SiluFwdOp(_InplaceUnaryOp):
    """`x * sigmoid(x)`; with `inplace` the input itself is overwritten and returned.

    Source: `torch.nn.functional.silu`.
    """

    function = "silu"


class GeluFwdOp(_UnaryOp):
    """Gaussian error linear unit, exact (erf) or by the tanh approximation.

    Source: `torch.nn.functional.gelu`.
    """

    function = "gelu"
    settings = ("approximate",)

    def __init__(
        self, *, approximate: Literal["none", "tanh"] = "none", target: str | None = None
    ) -> None:
        self.approximate = approximate
        super().__init__(target=target)


class ClampTensorFwdOp(_PointwiseOp):
    """Clamp between tensor bounds, at least one of which is given; `min > max` yields `max`.

    A NaN in the data or in a bound yields NaN.

    Source: `torch.clamp`.
    """

    interfaces = {"ternary": TernaryFwdInterface}
    function = "clamp"

    def forward(
        self, input: Tensor, min: Tensor | None = None, max: Tensor | None = None
    ) -> Tensor:
        """Clamp each element of `input`."""
        return self._kernel("ternary", input)(input, min, max)


class ExpFwdOp(_UnaryOp):
    """`e^x`. Source: `torch.exp`."""

    function = "exp"


class RsqrtFwdOp(_UnaryOp):
    """`1 / sqrt(x)`; `-0.0` gives `-inf`. Source: `torch.rsqrt`."""

    function = "rsqrt"


class AddFwdOp(_BinaryOp):
    """`input + alpha * other`; on bool it is OR. Source: `torch.add`."""

    function = "add"
    settings = ("alpha",)

    def __init__(self, *, alpha: float = 1, target: str | None = None) -> None:
        self.alpha = alpha
        super().__init__(target=target)


class MulFwdOp(_BinaryOp):
    """`input * other`; on bool it is AND. Source: `torch.mul`."""

    function = "mul"


class DivFwdOp(_BinaryOp):
    """`input / other`, the quotient optionally rounded toward zero or toward -inf.

    Source: `torch.div`.
    """

    function = "div"
    settings = ("rounding_mode",)

    def __init__(
        self, *, rounding_mode: Literal["trunc", "floor"] | None = None, target: str | None = None
    ) -> None:
        self.rounding_mode = rounding_mode
        super().__init__(target=target)


class MaskedFillScalarFwdOp(_PointwiseOp):
    """`value` where `mask` is true, else `input`; either operand may grow by broadcasting.

    Source: `torch.Tensor.masked_fill`.
    """

    interfaces = {"binary": BinaryFwdInterface}
    function = "masked_fill"
    settings = ("value",)

    def __init__(self, *, value: complex = 0.0, target: str | None = None) -> None:
        self.value = value
        super().__init__(target=target)

    def forward(self, input: Tensor, mask: Tensor) -> Tensor:
        """Fill `input` where `mask` is true."""
        return self._kernel("binary", input)(input, mask)


class WhereFwdOp(_PointwiseOp):
    """`input` where `condition` is true, else `other`. Source: `torch.where`."""

    interfaces = {"ternary": TernaryFwdInterface}
    function = "where"

    def forward(self, condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
        """Choose between `input` and `other` for each element."""
        return self._kernel("ternary", input)(condition, input, other)


class SiluAndMulFwdOp(Op):
    """`silu(x[:, :N]) * x[:, N:]`: gate in the left half of each row, value in the right.

    Both factors are float32 and the product is rounded once.

    Source: FlashInfer's `silu_and_mul`.
    """

    kernel_types = {"portable": GatedPortableKernel}
    interfaces = {"gated": GatedFwdInterface}

    def forward(self, x: Tensor) -> Tensor:
        """Gate each row of `x`."""
        call = GatedCall("silu", x.shape[1] // 2, x.dtype, device=x.device)
        return self.kernel_for("gated", call)(x.contiguous())


class AlibiFwdOp(Op):
    """Attention biases linear in the distance: `-2^(-8 (h + 1) / num_heads) * abs(i - j)`.

    The slope formula holds for every head count. Computed in float32; in float16 a head whose
    bias passes -65504 becomes -inf.

    Source: Press et al., "Train Short, Test Long", 2021.
    """

    kernel_types = {"portable": AlibiPortableKernel}
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
