"""Activations and range transforms of one tensor."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from tileops.elementwise.ops.pointwise import InplaceUnaryOp, TernaryOp, UnaryOp

__all__ = [
    "SiluFwdOp",
    "ReluFwdOp",
    "HardswishFwdOp",
    "HardsigmoidFwdOp",
    "MishFwdOp",
    "SeluFwdOp",
    "LeakyReluFwdOp",
    "EluFwdOp",
    "HardtanhFwdOp",
    "GeluFwdOp",
    "SoftplusFwdOp",
    "ClampTensorFwdOp",
    "ClampScalarFwdOp",
    "NanToNumFwdOp",
]


class SiluFwdOp(InplaceUnaryOp):
    """`x * sigmoid(x)`; with `inplace` the input itself is overwritten and returned.

    Also called swish. Neither this nor `mish` treats -inf apart: the result is NaN.

    Source: `torch.nn.functional.silu`.
    """

    function = "silu"


class ReluFwdOp(InplaceUnaryOp):
    """`max(x, 0)`; NaN stays. Source: `torch.nn.functional.relu`."""

    function = "relu"


class HardswishFwdOp(InplaceUnaryOp):
    """`x * clamp(x + 3, 0, 6) / 6`. Source: `torch.nn.functional.hardswish`."""

    function = "hardswish"


class HardsigmoidFwdOp(InplaceUnaryOp):
    """`clamp(x + 3, 0, 6) / 6`. Source: `torch.nn.functional.hardsigmoid`."""

    function = "hardsigmoid"


class MishFwdOp(InplaceUnaryOp):
    """`x * tanh(softplus(x))`. Source: `torch.nn.functional.mish`."""

    function = "mish"


class SeluFwdOp(InplaceUnaryOp):
    """`scale * (max(x, 0) + min(alpha * expm1(x), 0))` with the constants of self-normalising nets.

    Source: `torch.nn.functional.selu`.
    """

    function = "selu"


class LeakyReluFwdOp(InplaceUnaryOp):
    """`x` where positive, else `negative_slope * x`. Source: `torch.nn.functional.leaky_relu`."""

    function = "leaky_relu"
    settings = ("negative_slope", "inplace")

    def __init__(
        self, *, negative_slope: float = 0.01, inplace: bool = False, target: str | None = None
    ) -> None:
        self.negative_slope = negative_slope
        super().__init__(inplace=inplace, target=target)


class EluFwdOp(InplaceUnaryOp):
    """`x` where positive, else `alpha * expm1(x)`. Source: `torch.nn.functional.elu`."""

    function = "elu"
    settings = ("alpha", "inplace")

    def __init__(
        self, *, alpha: float = 1.0, inplace: bool = False, target: str | None = None
    ) -> None:
        self.alpha = alpha
        super().__init__(inplace=inplace, target=target)


class HardtanhFwdOp(InplaceUnaryOp):
    """`x` clamped to `[min_val, max_val]`; NaN stays. Source: `torch.nn.functional.hardtanh`."""

    function = "hardtanh"
    settings = ("min_val", "max_val", "inplace")

    def __init__(
        self,
        *,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        target: str | None = None,
    ) -> None:
        self.min_val = min_val
        self.max_val = max_val
        super().__init__(inplace=inplace, target=target)


class GeluFwdOp(UnaryOp):
    """Gaussian error linear unit, exact (erf) or by the tanh approximation; -inf gives NaN.

    Source: `torch.nn.functional.gelu`.
    """

    function = "gelu"
    settings = ("approximate",)

    def __init__(
        self, *, approximate: Literal["none", "tanh"] = "none", target: str | None = None
    ) -> None:
        self.approximate = approximate
        super().__init__(target=target)


class SoftplusFwdOp(UnaryOp):
    """`log1p(exp(beta * x)) / beta`, and `x` itself where `beta * x > threshold`.

    `beta = 0` gives inf.

    Source: `torch.nn.functional.softplus`.
    """

    function = "softplus"
    settings = ("beta", "threshold")

    def __init__(
        self, *, beta: float = 1.0, threshold: float = 20.0, target: str | None = None
    ) -> None:
        self.beta = beta
        self.threshold = threshold
        super().__init__(target=target)


class ClampTensorFwdOp(TernaryOp):
    """Clamp between tensor bounds, at least one of which is given; `min > max` yields `max`.

    A NaN in the data or in a bound yields NaN.

    Source: `torch.clamp`.
    """

    function = "clamp"

    def forward(
        self, input: Tensor, min: Tensor | None = None, max: Tensor | None = None
    ) -> Tensor:
        """Clamp each element of `input`."""
        return self.apply("ternary", input, input, min, max)


class ClampScalarFwdOp(UnaryOp):
    """Clamp between numbers, at least one of which is given; `min > max` yields `max`.

    Source: `torch.clamp`.
    """

    function = "clamp"
    settings = ("min", "max")

    def __init__(
        self, *, min: complex | None = None, max: complex | None = None, target: str | None = None
    ) -> None:
        self.min = min
        self.max = max
        super().__init__(target=target)


class NanToNumFwdOp(UnaryOp):
    """Replace NaN and infinities; without `posinf` or `neginf` by the extremes of the dtype.

    Source: `torch.nan_to_num`.
    """

    function = "nan_to_num"
    settings = ("nan", "posinf", "neginf")

    def __init__(
        self,
        *,
        nan: float = 0.0,
        posinf: float | None = None,
        neginf: float | None = None,
        target: str | None = None,
    ) -> None:
        self.nan = nan
        self.posinf = posinf
        self.neginf = neginf
        super().__init__(target=target)
