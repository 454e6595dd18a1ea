"""Functions and predicates of one tensor, and dropout."""

from __future__ import annotations

import torch
from torch import Tensor

from tileops._core.op import Op
from tileops.elementwise.kernels import (
    DropoutCall,
    DropoutFwdInterface,
    DropoutPortableKernel,
    DropoutTileKernel,
)
from tileops.elementwise.ops.pointwise import PredicateOp, UnaryOp

__all__ = [
    "ExpFwdOp",
    "LogFwdOp",
    "SqrtFwdOp",
    "RsqrtFwdOp",
    "SinFwdOp",
    "CosFwdOp",
    "TanhFwdOp",
    "ErfFwdOp",
    "Log1pFwdOp",
    "Expm1FwdOp",
    "SigmoidFwdOp",
    "AbsFwdOp",
    "NegFwdOp",
    "SignFwdOp",
    "ReciprocalFwdOp",
    "FloorFwdOp",
    "CeilFwdOp",
    "TruncFwdOp",
    "RoundFwdOp",
    "LogicalNotFwdOp",
    "BitwiseNotFwdOp",
    "IsnanFwdOp",
    "IsinfFwdOp",
    "IsfiniteFwdOp",
    "DropoutFwdOp",
]


class ExpFwdOp(UnaryOp):
    """`e^x`. Source: `torch.exp`."""

    function = "exp"


class LogFwdOp(UnaryOp):
    """Natural logarithm; 0 gives -inf, negative numbers NaN. Source: `torch.log`."""

    function = "log"


class SqrtFwdOp(UnaryOp):
    """Square root; negative numbers give NaN. Source: `torch.sqrt`."""

    function = "sqrt"


class RsqrtFwdOp(UnaryOp):
    """`1 / sqrt(x)`; `-0.0` gives `-inf`. Source: `torch.rsqrt`."""

    function = "rsqrt"


class SinFwdOp(UnaryOp):
    """Sine. Source: `torch.sin`."""

    function = "sin"


class CosFwdOp(UnaryOp):
    """Cosine. Source: `torch.cos`."""

    function = "cos"


class TanhFwdOp(UnaryOp):
    """Hyperbolic tangent. Source: `torch.tanh`."""

    function = "tanh"


class ErfFwdOp(UnaryOp):
    """Error function. Source: `torch.erf`."""

    function = "erf"


class Log1pFwdOp(UnaryOp):
    """`log(1 + x)`, exact near 0; -1 gives -inf. Source: `torch.log1p`."""

    function = "log1p"


class Expm1FwdOp(UnaryOp):
    """`e^x - 1`, exact near 0. Source: `torch.expm1`."""

    function = "expm1"


class SigmoidFwdOp(UnaryOp):
    """`1 / (1 + e^-x)`. Source: `torch.sigmoid`."""

    function = "sigmoid"


class AbsFwdOp(UnaryOp):
    """Absolute value; the least integer stays itself. Source: `torch.abs`."""

    function = "abs"


class NegFwdOp(UnaryOp):
    """`-x`; integers wrap, so that the negative of uint8 1 is 255. Source: `torch.neg`."""

    function = "neg"


class SignFwdOp(UnaryOp):
    """-1, 0 or 1; NaN gives 0. Source: `torch.sign`."""

    function = "sign"


class ReciprocalFwdOp(UnaryOp):
    """`1 / x`, float32 for integers; 0 gives inf. Source: `torch.reciprocal`."""

    function = "reciprocal"

    def result_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """float32 for integers."""
        return dtype if dtype.is_floating_point else torch.float32


class FloorFwdOp(UnaryOp):
    """The next integer below; integers are copied. Source: `torch.floor`."""

    function = "floor"


class CeilFwdOp(UnaryOp):
    """The next integer above; integers are copied. Source: `torch.ceil`."""

    function = "ceil"


class TruncFwdOp(UnaryOp):
    """The next integer towards 0; integers are copied. Source: `torch.trunc`."""

    function = "trunc"


class RoundFwdOp(UnaryOp):
    """The nearest multiple of `10^-decimals`, ties to even; integers are copied.

    Source: `torch.round`.
    """

    function = "round"
    settings = ("decimals",)

    def __init__(self, *, decimals: int = 0, target: str | None = None) -> None:
        self.decimals = decimals
        super().__init__(target=target)


class LogicalNotFwdOp(PredicateOp):
    """Whether an element is zero; NaN is not. Source: `torch.logical_not`."""

    function = "logical_not"


class BitwiseNotFwdOp(UnaryOp):
    """All bits flipped; on bool it is NOT. Source: `torch.bitwise_not`."""

    function = "bitwise_not"


class IsnanFwdOp(PredicateOp):
    """Whether an element is NaN; never for integers. Source: `torch.isnan`."""

    function = "isnan"


class IsinfFwdOp(PredicateOp):
    """Whether an element is infinite; never for integers. Source: `torch.isinf`."""

    function = "isinf"


class IsfiniteFwdOp(PredicateOp):
    """Whether an element is neither infinite nor NaN; always for integers.

    Source: `torch.isfinite`.
    """

    function = "isfinite"


class DropoutFwdOp(Op):
    """Zero each element with probability `p`, scale the others by `1 / (1 - p)`.

    What is dropped depends on `seed` and the element's position alone, hence equal calls drop
    alike, on every device: element `i`, in the order of axes, is kept where word `i % 4` of
    Philox4x32-10 with key `seed` and counter `i // 4` is at least `p * 2^32`. `p = 0` and
    `training = False` copy; `p = 1` writes zeros, also for NaN.

    Source: `torch.nn.functional.dropout`, in distribution.
    """

    kernel_types = {"tile": DropoutTileKernel, "portable": DropoutPortableKernel}
    interfaces = {"dropout": DropoutFwdInterface}

    def __init__(
        self,
        p: float = 0.5,
        seed: int = 0,
        training: bool = True,
        *,
        target: str | None = None,
    ) -> None:
        self.p = p
        self.seed = seed
        self.training = training
        super().__init__(target=target)

    def forward(self, input: Tensor) -> Tensor:
        """Drop elements of `input`."""
        p = self.p if self.training else 0.0
        kernel = self.kernel_for("dropout", DropoutCall(input.dtype, device=input.device))
        return kernel(input.contiguous(), p, self.seed)
