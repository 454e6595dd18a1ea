"""Functions of two broadcasting tensors."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from tileops.elementwise.ops.pointwise import BinaryOp, RelationOp, TernaryOp

__all__ = [
    "AddFwdOp",
    "SubFwdOp",
    "MulFwdOp",
    "MaximumFwdOp",
    "MinimumFwdOp",
    "DivFwdOp",
    "FloorDivideFwdOp",
    "RemainderFwdOp",
    "PowFwdOp",
    "LerpFwdOp",
    "EqFwdOp",
    "NeFwdOp",
    "GtFwdOp",
    "LtFwdOp",
    "GeFwdOp",
    "LeFwdOp",
    "LogicalAndFwdOp",
    "LogicalOrFwdOp",
    "BitwiseAndFwdOp",
    "BitwiseOrFwdOp",
    "BitwiseXorFwdOp",
    "MaskedFillFwdOp",
    "MaskedFillScalarFwdOp",
    "PreluFwdOp",
]


class AddFwdOp(BinaryOp):
    """`input + alpha * other`; on bool it is OR. Source: `torch.add`."""

    function = "add"
    settings = ("alpha",)

    def __init__(self, *, alpha: float = 1, target: str | None = None) -> None:
        self.alpha = alpha
        super().__init__(target=target)


class SubFwdOp(BinaryOp):
    """`input - alpha * other`. Source: `torch.sub`."""

    function = "sub"
    settings = ("alpha",)

    def __init__(self, *, alpha: float = 1, target: str | None = None) -> None:
        self.alpha = alpha
        super().__init__(target=target)


class MulFwdOp(BinaryOp):
    """`input * other`; on bool it is AND. Source: `torch.mul`."""

    function = "mul"


class MaximumFwdOp(BinaryOp):
    """The larger of two elements; NaN wins. Source: `torch.maximum`."""

    function = "maximum"


class MinimumFwdOp(BinaryOp):
    """The smaller of two elements; NaN wins. Source: `torch.minimum`."""

    function = "minimum"


class DivFwdOp(BinaryOp):
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


class FloorDivideFwdOp(BinaryOp):
    """The true quotient, rounded toward -inf. Source: `torch.floor_divide`."""

    function = "div"
    settings = ("rounding_mode",)
    rounding_mode = "floor"


class RemainderFwdOp(BinaryOp):
    """`input - floor(input / other) * other`, with the sign of the divisor.

    Source: `torch.remainder`.
    """

    function = "remainder"


class PowFwdOp(BinaryOp):
    """`input ^ exponent`. Source: `torch.pow`."""

    function = "pow"

    def forward(self, input: Tensor, exponent: Tensor) -> Tensor:
        """Raise each element of `input` to its power."""
        return self.apply("binary", input, input, exponent)


class LerpFwdOp(BinaryOp):
    """`input + weight * (end - input)`, exact for the weights 0 and 1.

    Source: `torch.lerp`.
    """

    function = "lerp"
    settings = ("weight",)

    def __init__(self, *, weight: float = 0.5, target: str | None = None) -> None:
        self.weight = weight
        super().__init__(target=target)

    def forward(self, input: Tensor, end: Tensor) -> Tensor:
        """Interpolate between `input` and `end`."""
        return self.apply("binary", input, input, end)


class EqFwdOp(RelationOp):
    """`input == other`; false where one is NaN. Source: `torch.eq`."""

    function = "eq"


class NeFwdOp(RelationOp):
    """`input != other`; true where one is NaN. Source: `torch.ne`."""

    function = "ne"


class GtFwdOp(RelationOp):
    """`input > other`; false where one is NaN. Source: `torch.gt`."""

    function = "gt"


class LtFwdOp(RelationOp):
    """`input < other`; false where one is NaN. Source: `torch.lt`."""

    function = "lt"


class GeFwdOp(RelationOp):
    """`input >= other`; false where one is NaN. Source: `torch.ge`."""

    function = "ge"


class LeFwdOp(RelationOp):
    """`input <= other`; false where one is NaN. Source: `torch.le`."""

    function = "le"


class LogicalAndFwdOp(RelationOp):
    """Whether both elements are nonzero; NaN is. Source: `torch.logical_and`."""

    function = "logical_and"


class LogicalOrFwdOp(RelationOp):
    """Whether one element is nonzero; NaN is. Source: `torch.logical_or`."""

    function = "logical_or"


class BitwiseAndFwdOp(BinaryOp):
    """Bitwise AND. Source: `torch.bitwise_and`."""

    function = "bitwise_and"


class BitwiseOrFwdOp(BinaryOp):
    """Bitwise OR. Source: `torch.bitwise_or`."""

    function = "bitwise_or"


class BitwiseXorFwdOp(BinaryOp):
    """Bitwise exclusive OR. Source: `torch.bitwise_xor`."""

    function = "bitwise_xor"


class MaskedFillFwdOp(TernaryOp):
    """`value`, one element, where `mask` is true, else `input`; either operand may grow.

    Source: `torch.Tensor.masked_fill`.
    """

    function = "where"

    def forward(self, input: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        """Fill `input` where `mask` is true."""
        return self.apply("ternary", input, mask, value, input)


class MaskedFillScalarFwdOp(BinaryOp):
    """`value` where `mask` is true, else `input`; either operand may grow by broadcasting.

    Source: `torch.Tensor.masked_fill`.
    """

    function = "masked_fill"
    settings = ("value",)

    def __init__(self, *, value: complex = 0.0, target: str | None = None) -> None:
        self.value = value
        super().__init__(target=target)

    def forward(self, input: Tensor, mask: Tensor) -> Tensor:
        """Fill `input` where `mask` is true."""
        return self.apply("binary", input, input, mask)


class PreluFwdOp(BinaryOp):
    """`x` where positive, else `weight * x`, the weight per channel of axis 1 or one for all.

    Source: `torch.nn.functional.prelu`.
    """

    function = "prelu"

    def forward(self, input: Tensor, weight: Tensor) -> Tensor:
        """Apply the slopes."""
        if weight.numel() > 1:
            weight = weight.reshape(-1, *[1] * (input.dim() - 2))
        return self.apply("binary", input, input, weight)
