"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Literal

import torch
from torch import Tensor

from tileops.elementwise.ops import binary as _binary
from tileops.elementwise.ops import fused_gated as _fused_gated
from tileops.elementwise.ops import generative as _generative
from tileops.elementwise.ops import multi_input as _multi_input
from tileops.elementwise.ops import unary_activation as _unary_activation
from tileops.elementwise.ops import unary_math as _unary_math

__all__ = [
    "AbsFwdOp",
    "AddFwdOp",
    "AlibiFwdOp",
    "BitwiseAndFwdOp",
    "BitwiseNotFwdOp",
    "BitwiseOrFwdOp",
    "BitwiseXorFwdOp",
    "CeilFwdOp",
    "ClampScalarFwdOp",
    "ClampTensorFwdOp",
    "CosFwdOp",
    "DivFwdOp",
    "DropoutFwdOp",
    "EluFwdOp",
    "EqFwdOp",
    "ErfFwdOp",
    "ExpFwdOp",
    "Expm1FwdOp",
    "FloorDivideFwdOp",
    "FloorFwdOp",
    "GeFwdOp",
    "GeluAndMulBwdOp",
    "GeluAndMulFwdOp",
    "GeluFwdOp",
    "GeluTanhAndMulBwdOp",
    "GeluTanhAndMulFwdOp",
    "GtFwdOp",
    "HardsigmoidFwdOp",
    "HardswishFwdOp",
    "HardtanhFwdOp",
    "IsfiniteFwdOp",
    "IsinfFwdOp",
    "IsnanFwdOp",
    "LeFwdOp",
    "LeakyReluFwdOp",
    "LerpFwdOp",
    "LerpTensorFwdOp",
    "Log1pFwdOp",
    "LogFwdOp",
    "LogicalAndFwdOp",
    "LogicalNotFwdOp",
    "LogicalOrFwdOp",
    "LtFwdOp",
    "MaskedFillFwdOp",
    "MaskedFillScalarFwdOp",
    "MaximumFwdOp",
    "MinimumFwdOp",
    "MishFwdOp",
    "MulFwdOp",
    "NanToNumFwdOp",
    "NeFwdOp",
    "NegFwdOp",
    "PowFwdOp",
    "PreluFwdOp",
    "ReciprocalFwdOp",
    "ReluFwdOp",
    "RemainderFwdOp",
    "RoundFwdOp",
    "RsqrtFwdOp",
    "SeluFwdOp",
    "SigmoidFwdOp",
    "SignFwdOp",
    "SiluAndMulBwdOp",
    "SiluAndMulFwdOp",
    "SiluFwdOp",
    "SinFwdOp",
    "SinusoidalFwdOp",
    "SoftplusFwdOp",
    "SqrtFwdOp",
    "SubFwdOp",
    "TanhFwdOp",
    "TruncFwdOp",
    "WhereFwdOp",
]

class AbsFwdOp(_unary_math.AbsFwdOp):
    """Absolute value; the least integer stays itself. Source: `torch.abs`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class AddFwdOp(_binary.AddFwdOp):
    """`input + alpha * other`; on bool it is OR. Source: `torch.add`."""

    def __init__(self, *, alpha: int | float = 1, target: str | None = None) -> None:
        """Construct the op.

        Args:
            alpha: `int | float`, 1
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        where category(alpha) == 'int' or category(alpha) == category(T)
          and representable(alpha, T)
        """

class AlibiFwdOp(_generative.AlibiFwdOp):
    """Attention biases linear in the distance: `-2^(-8 (h + 1) / num_heads) * abs(i - j)`.

    The slope formula holds for every head count. Computed in float32; in float16 a head whose
    bias passes -65504 becomes -inf.

    Source: Press et al., "Train Short, Test Long", 2021.
    """

    def __init__(
        self,
        *,
        seq_len: int,
        num_heads: int,
        out_dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            seq_len: `int`
            num_heads: `int`
            out_dtype: `float16 | bfloat16 | float32`, 'float32'
            device: `torch.device | str | None`, None
            target: what serves the instance; by default the device decides

        Calls return:
            output: `out_dtype[num_heads, seq_len, seq_len]`
        """

    def __call__(self) -> Tensor:
        """Call the op.

        Returns:
            output: `out_dtype[num_heads, seq_len, seq_len]`

        where seq_len > 0
          and num_heads > 0
        """

class BitwiseAndFwdOp(_binary.BitwiseAndFwdOp):
    """Bitwise AND. Source: `torch.bitwise_and`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64}
        """

class BitwiseNotFwdOp(_unary_math.BitwiseNotFwdOp):
    """All bits flipped; on bool it is NOT. Source: `torch.bitwise_not`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {bool, uint8, int8, int16, int32, int64}
        """

class BitwiseOrFwdOp(_binary.BitwiseOrFwdOp):
    """Bitwise OR. Source: `torch.bitwise_or`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64}
        """

class BitwiseXorFwdOp(_binary.BitwiseXorFwdOp):
    """Bitwise exclusive OR. Source: `torch.bitwise_xor`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64}
        """

class CeilFwdOp(_unary_math.CeilFwdOp):
    """The next integer above; integers are copied. Source: `torch.ceil`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class ClampScalarFwdOp(_unary_activation.ClampScalarFwdOp):
    """Clamp between numbers, at least one of which is given; `min > max` yields `max`.

    Source: `torch.clamp`.
    """

    def __init__(
        self, *, min: complex | None = None, max: complex | None = None, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            min: `Number | None`, None
            max: `Number | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where present(min) or present(max)
          and not present(min) or representable(min.value, T)
          and not present(max) or representable(max.value, T)
        """

class ClampTensorFwdOp(_unary_activation.ClampTensorFwdOp):
    """Clamp between tensor bounds, at least one of which is given; `min > max` yields `max`.

    A NaN in the data or in a bound yields NaN.

    Source: `torch.clamp`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            min: `T[*L]`
            max: `T[*U]`

        Calls return:
            output: `T ClampOut[A, L, U, present(min), present(max)]`
        """

    def __call__(
        self, input: Tensor, min: Tensor | None = None, max: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            min: `T[*L]`
            max: `T[*U]`

        Returns:
            output: `T ClampOut[A, L, U, present(min), present(max)]`

        ∀ A, L, U : Shape, T ∈ {float16, bfloat16, float32}
        type ClampOut[A: Shape, L: Shape, U: Shape, lower: Bool, upper: Bool] = match lower, upper
          true, true ⇒ [*broadcast(A, L, U)]
          true, false ⇒ [*broadcast(A, L)]
          false, true ⇒ [*broadcast(A, U)]
        where present(min) or present(max)
        """

class CosFwdOp(_unary_math.CosFwdOp):
    """Cosine. Source: `torch.cos`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class DivFwdOp(_binary.DivFwdOp):
    """`input / other`, the quotient optionally rounded toward zero or toward -inf.

    Source: `torch.div`.
    """

    def __init__(
        self, *, rounding_mode: Literal["trunc", "floor"] | None = None, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            rounding_mode: `'trunc' | 'floor' | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {float16, bfloat16, float32}
        """

class DropoutFwdOp(_unary_math.DropoutFwdOp):
    """Zero each element with probability `p`, scale the others by `1 / (1 - p)`.

    What is dropped depends on `seed` and the element's position alone, hence equal calls drop
    alike, on every device: element `i`, in the order of axes, is kept where word `i % 4` of
    Philox4x32-10 with key `seed` and counter `i // 4` is at least `p * 2^32`. `p = 0` and
    `training = False` copy; `p = 1` writes zeros, also for NaN.

    Source: `torch.nn.functional.dropout`, in distribution.
    """

    def __init__(
        self, p: float = 0.5, seed: int = 0, training: bool = True, *, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            p: `float`, 0.5
            seed: `int`, 0
            training: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where 0 <= p <= 1
        """

class EluFwdOp(_unary_activation.EluFwdOp):
    """`x` where positive, else `alpha * expm1(x)`. Source: `torch.nn.functional.elu`."""

    def __init__(
        self, *, alpha: float = 1.0, inplace: bool = False, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            alpha: `float`, 1.0
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class EqFwdOp(_binary.EqFwdOp):
    """`input == other`; false where one is NaN. Source: `torch.eq`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class ErfFwdOp(_unary_math.ErfFwdOp):
    """Error function. Source: `torch.erf`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class ExpFwdOp(_unary_math.ExpFwdOp):
    """`e^x`. Source: `torch.exp`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class Expm1FwdOp(_unary_math.Expm1FwdOp):
    """`e^x - 1`, exact near 0. Source: `torch.expm1`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class FloorDivideFwdOp(_binary.FloorDivideFwdOp):
    """The true quotient, rounded toward -inf. Source: `torch.floor_divide`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {float16, bfloat16, float32}
        """

class FloorFwdOp(_unary_math.FloorFwdOp):
    """The next integer below; integers are copied. Source: `torch.floor`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class GeFwdOp(_binary.GeFwdOp):
    """`input >= other`; false where one is NaN. Source: `torch.ge`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class GeluAndMulBwdOp(_fused_gated.GeluAndMulBwdOp):
    """Gradient of `GeluAndMulFwdOp`. Source: the derivative of `gelu(gate) * value`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[M, N]`
            x: `T[M, 2 * N]`

        Calls return:
            grad_x: `T[M, 2 * N]`
        """

    def __call__(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T[M, N]`
            x: `T[M, 2 * N]`

        Returns:
            grad_x: `T[M, 2 * N]`

        ∀ M, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class GeluAndMulFwdOp(_fused_gated.GeluAndMulFwdOp):
    """GeGLU: `gelu(x[:, :N]) * x[:, N:]`; the caller flattens leading axes: `x.flatten(0, -2)`.

    Source: FlashInfer's `gelu_and_mul`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[M, 2 * N]`

        Calls return:
            output: `T[M, N]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[M, 2 * N]`

        Returns:
            output: `T[M, N]`

        ∀ M, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class GeluFwdOp(_unary_activation.GeluFwdOp):
    """Gaussian error linear unit, exact (erf) or by the tanh approximation; -inf gives NaN.

    Source: `torch.nn.functional.gelu`.
    """

    def __init__(
        self, *, approximate: Literal["none", "tanh"] = "none", target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            approximate: `'none' | 'tanh'`, 'none'
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class GeluTanhAndMulBwdOp(_fused_gated.GeluTanhAndMulBwdOp):
    """Gradient of `GeluTanhAndMulFwdOp`. Source: the derivative of its tanh approximation."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[M, N]`
            x: `T[M, 2 * N]`

        Calls return:
            grad_x: `T[M, 2 * N]`
        """

    def __call__(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T[M, N]`
            x: `T[M, 2 * N]`

        Returns:
            grad_x: `T[M, 2 * N]`

        ∀ M, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class GeluTanhAndMulFwdOp(_fused_gated.GeluTanhAndMulFwdOp):
    """GeGLU by the tanh approximation: `gelu(x[:, :N]) * x[:, N:]`.

    The caller flattens leading axes: `x.flatten(0, -2)`.

    Source: FlashInfer's `gelu_tanh_and_mul`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[M, 2 * N]`

        Calls return:
            output: `T[M, N]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[M, 2 * N]`

        Returns:
            output: `T[M, N]`

        ∀ M, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class GtFwdOp(_binary.GtFwdOp):
    """`input > other`; false where one is NaN. Source: `torch.gt`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class HardsigmoidFwdOp(_unary_activation.HardsigmoidFwdOp):
    """`clamp(x + 3, 0, 6) / 6`. Source: `torch.nn.functional.hardsigmoid`."""

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        """Construct the op.

        Args:
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class HardswishFwdOp(_unary_activation.HardswishFwdOp):
    """`x * clamp(x + 3, 0, 6) / 6`. Source: `torch.nn.functional.hardswish`."""

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        """Construct the op.

        Args:
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class HardtanhFwdOp(_unary_activation.HardtanhFwdOp):
    """`x` clamped to `[min_val, max_val]`; NaN stays. Source: `torch.nn.functional.hardtanh`."""

    def __init__(
        self,
        *,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            min_val: `float`, -1.0
            max_val: `float`, 1.0
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        where min_val <= max_val
          and representable(min_val, T) and representable(max_val, T)
        """

class IsfiniteFwdOp(_unary_math.IsfiniteFwdOp):
    """Whether an element is neither infinite nor NaN; always for integers.

    Source: `torch.isfinite`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `bool[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `bool[*S]`

        ∀ S : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class IsinfFwdOp(_unary_math.IsinfFwdOp):
    """Whether an element is infinite; never for integers. Source: `torch.isinf`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `bool[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `bool[*S]`

        ∀ S : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class IsnanFwdOp(_unary_math.IsnanFwdOp):
    """Whether an element is NaN; never for integers. Source: `torch.isnan`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `bool[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `bool[*S]`

        ∀ S : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class LeFwdOp(_binary.LeFwdOp):
    """`input <= other`; false where one is NaN. Source: `torch.le`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class LeakyReluFwdOp(_unary_activation.LeakyReluFwdOp):
    """`x` where positive, else `negative_slope * x`. Source: `torch.nn.functional.leaky_relu`."""

    def __init__(
        self, *, negative_slope: float = 0.01, inplace: bool = False, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            negative_slope: `float`, 0.01
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class LerpFwdOp(_binary.LerpFwdOp):
    """`input + weight * (end - input)`, exact for the weights 0 and 1.

    Source: `torch.lerp`.
    """

    def __init__(self, *, weight: float = 0.5, target: str | None = None) -> None:
        """Construct the op.

        Args:
            weight: `float`, 0.5
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            end: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, end: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            end: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {float16, bfloat16, float32}
        """

class LerpTensorFwdOp(_multi_input.LerpTensorFwdOp):
    """`input + weight * (end - input)`, exact where a weight is 0 or 1.

    Source: `torch.lerp`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            end: `T[*E]`
            weight: `T[*W]`

        Calls return:
            output: `T[*broadcast(A, E, W)]`
        """

    def __call__(self, input: Tensor, end: Tensor, weight: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            end: `T[*E]`
            weight: `T[*W]`

        Returns:
            output: `T[*broadcast(A, E, W)]`

        ∀ A, E, W : Shape, T ∈ {float16, bfloat16, float32}
        """

class Log1pFwdOp(_unary_math.Log1pFwdOp):
    """`log(1 + x)`, exact near 0; -1 gives -inf. Source: `torch.log1p`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class LogFwdOp(_unary_math.LogFwdOp):
    """Natural logarithm; 0 gives -inf, negative numbers NaN. Source: `torch.log`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class LogicalAndFwdOp(_binary.LogicalAndFwdOp):
    """Whether both elements are nonzero; NaN is. Source: `torch.logical_and`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class LogicalNotFwdOp(_unary_math.LogicalNotFwdOp):
    """Whether an element is zero; NaN is not. Source: `torch.logical_not`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `bool[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `bool[*S]`

        ∀ S : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class LogicalOrFwdOp(_binary.LogicalOrFwdOp):
    """Whether one element is nonzero; NaN is. Source: `torch.logical_or`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class LtFwdOp(_binary.LtFwdOp):
    """`input < other`; false where one is NaN. Source: `torch.lt`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class MaskedFillFwdOp(_binary.MaskedFillFwdOp):
    """`value`, one element, where `mask` is true, else `input`; either operand may grow.

    Source: `torch.Tensor.masked_fill`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            mask: `bool[*M]`
            value: `T[]`

        Calls return:
            output: `T[*broadcast(A, M)]`
        """

    def __call__(self, input: Tensor, mask: Tensor, value: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            mask: `bool[*M]`
            value: `T[]`

        Returns:
            output: `T[*broadcast(A, M)]`

        ∀ A, M : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class MaskedFillScalarFwdOp(_binary.MaskedFillScalarFwdOp):
    """`value` where `mask` is true, else `input`; either operand may grow by broadcasting.

    Source: `torch.Tensor.masked_fill`.
    """

    def __init__(self, *, value: complex = 0.0, target: str | None = None) -> None:
        """Construct the op.

        Args:
            value: `Number`, 0.0
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            mask: `bool[*M]`

        Calls return:
            output: `T[*broadcast(A, M)]`
        """

    def __call__(self, input: Tensor, mask: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            mask: `bool[*M]`

        Returns:
            output: `T[*broadcast(A, M)]`

        ∀ A, M : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        where representable(value, T)
        """

class MaximumFwdOp(_binary.MaximumFwdOp):
    """The larger of two elements; NaN wins. Source: `torch.maximum`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class MinimumFwdOp(_binary.MinimumFwdOp):
    """The smaller of two elements; NaN wins. Source: `torch.minimum`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class MishFwdOp(_unary_activation.MishFwdOp):
    """`x * tanh(softplus(x))`. Source: `torch.nn.functional.mish`."""

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        """Construct the op.

        Args:
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class MulFwdOp(_binary.MulFwdOp):
    """`input * other`; on bool it is AND. Source: `torch.mul`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class NanToNumFwdOp(_unary_activation.NanToNumFwdOp):
    """Replace NaN and infinities; without `posinf` or `neginf` by the extremes of the dtype.

    Source: `torch.nan_to_num`.
    """

    def __init__(
        self,
        *,
        nan: float = 0.0,
        posinf: float | None = None,
        neginf: float | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            nan: `float`, 0.0
            posinf: `float | None`, None
            neginf: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class NeFwdOp(_binary.NeFwdOp):
    """`input != other`; true where one is NaN. Source: `torch.ne`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `bool[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `bool[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class NegFwdOp(_unary_math.NegFwdOp):
    """`-x`; integers wrap, so that the negative of uint8 1 is 255. Source: `torch.neg`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class PowFwdOp(_binary.PowFwdOp):
    """`input ^ exponent`. Source: `torch.pow`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            exponent: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, exponent: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            exponent: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {float16, bfloat16, float32}
        """

class PreluFwdOp(_binary.PreluFwdOp):
    """`x` where positive, else `weight * x`, the weight per channel of axis 1 or one for all.

    Source: `torch.nn.functional.prelu`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`
            weight: `T[*W]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor, weight: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`
            weight: `T[*W]`

        Returns:
            output: `T[*S]`

        ∀ S, W : Shape, T ∈ {float16, bfloat16, float32}
        where W == () or W == (1,) or len(W) == 1 and len(S) >= 2 and W[0] == S[1]
        """

class ReciprocalFwdOp(_unary_math.ReciprocalFwdOp):
    """`1 / x`, float32 for integers; 0 gives inf. Source: `torch.reciprocal`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `(promote_int_to_float(T))[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `(promote_int_to_float(T))[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class ReluFwdOp(_unary_activation.ReluFwdOp):
    """`max(x, 0)`; NaN stays. Source: `torch.nn.functional.relu`."""

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        """Construct the op.

        Args:
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class RemainderFwdOp(_binary.RemainderFwdOp):
    """`input - floor(input / other) * other`, with the sign of the divisor.

    Source: `torch.remainder`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {float16, bfloat16, float32}
        """

class RoundFwdOp(_unary_math.RoundFwdOp):
    """The nearest multiple of `10^-decimals`, ties to even; integers are copied.

    Source: `torch.round`.
    """

    def __init__(self, *, decimals: int = 0, target: str | None = None) -> None:
        """Construct the op.

        Args:
            decimals: `int`, 0
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        where decimals == 0 or category(T) == 'float'
        """

class RsqrtFwdOp(_unary_math.RsqrtFwdOp):
    """`1 / sqrt(x)`; `-0.0` gives `-inf`. Source: `torch.rsqrt`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SeluFwdOp(_unary_activation.SeluFwdOp):
    """`scale * (max(x, 0) + min(alpha * expm1(x), 0))` with the constants of self-normalising nets.

    Source: `torch.nn.functional.selu`.
    """

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        """Construct the op.

        Args:
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SigmoidFwdOp(_unary_math.SigmoidFwdOp):
    """`1 / (1 + e^-x)`. Source: `torch.sigmoid`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SignFwdOp(_unary_math.SignFwdOp):
    """-1, 0 or 1; NaN gives 0. Source: `torch.sign`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class SiluAndMulBwdOp(_fused_gated.SiluAndMulBwdOp):
    """Gradient of `SiluAndMulFwdOp`. Source: the derivative of `silu(gate) * value`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[M, N]`
            x: `T[M, 2 * N]`

        Calls return:
            grad_x: `T[M, 2 * N]`
        """

    def __call__(self, grad_out: Tensor, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T[M, N]`
            x: `T[M, 2 * N]`

        Returns:
            grad_x: `T[M, 2 * N]`

        ∀ M, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class SiluAndMulFwdOp(_fused_gated.SiluAndMulFwdOp):
    """SwiGLU: `silu(x[:, :N]) * x[:, N:]`; the caller flattens leading axes: `x.flatten(0, -2)`.

    Source: FlashInfer's `silu_and_mul`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[M, 2 * N]`

        Calls return:
            output: `T[M, N]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[M, 2 * N]`

        Returns:
            output: `T[M, N]`

        ∀ M, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class SiluFwdOp(_unary_activation.SiluFwdOp):
    """`x * sigmoid(x)`; with `inplace` the input itself is overwritten and returned.

    Also called swish. Neither this nor `mish` treats -inf apart: the result is NaN.

    Source: `torch.nn.functional.silu`.
    """

    def __init__(self, *, inplace: bool = False, target: str | None = None) -> None:
        """Construct the op.

        Args:
            inplace: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`, written when inplace

        Calls return:
            output: `T[*S]`, is input itself where that is written
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`, written when inplace

        Returns:
            output: `T[*S]`, is input itself where that is written

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SinFwdOp(_unary_math.SinFwdOp):
    """Sine. Source: `torch.sin`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SinusoidalFwdOp(_generative.SinusoidalFwdOp):
    """Position embeddings: `sin(p / 10000^(2i / d_model))` in channel `2i`, then the cosine.

    The angle is formed in float32 or wider, also for 16-bit results.

    Source: Vaswani et al., "Attention Is All You Need", 2017.
    """

    def __init__(
        self,
        *,
        seq_len: int,
        d_model: int,
        out_dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            seq_len: `int`
            d_model: `int`
            out_dtype: `float16 | bfloat16 | float32`, 'float32'
            device: `torch.device | str | None`, None
            target: what serves the instance; by default the device decides

        Calls return:
            output: `out_dtype[seq_len, d_model]`
        """

    def __call__(self) -> Tensor:
        """Call the op.

        Returns:
            output: `out_dtype[seq_len, d_model]`

        where seq_len > 0
          and d_model > 0 and d_model % 2 == 0
        """

class SoftplusFwdOp(_unary_activation.SoftplusFwdOp):
    """`log1p(exp(beta * x)) / beta`, and `x` itself where `beta * x > threshold`.

    `beta = 0` gives inf.

    Source: `torch.nn.functional.softplus`.
    """

    def __init__(
        self, *, beta: float = 1.0, threshold: float = 20.0, target: str | None = None
    ) -> None:
        """Construct the op.

        Args:
            beta: `float`, 1.0
            threshold: `float`, 20.0
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SqrtFwdOp(_unary_math.SqrtFwdOp):
    """Square root; negative numbers give NaN. Source: `torch.sqrt`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class SubFwdOp(_binary.SubFwdOp):
    """`input - alpha * other`. Source: `torch.sub`."""

    def __init__(self, *, alpha: int | float = 1, target: str | None = None) -> None:
        """Construct the op.

        Args:
            alpha: `int | float`, 1
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(A, B)]`
        """

    def __call__(self, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(A, B)]`

        ∀ A, B : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        where category(alpha) == 'int' or category(alpha) == category(T)
          and representable(alpha, T)
        """

class TanhFwdOp(_unary_math.TanhFwdOp):
    """Hyperbolic tangent. Source: `torch.tanh`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {float16, bfloat16, float32}
        """

class TruncFwdOp(_unary_math.TruncFwdOp):
    """The next integer towards 0; integers are copied. Source: `torch.trunc`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*S]`

        Calls return:
            output: `T[*S]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*S]`

        Returns:
            output: `T[*S]`

        ∀ S : Shape, T ∈ {uint8, int8, int16, int32, int64, float16, bfloat16, float32}
        """

class WhereFwdOp(_multi_input.WhereFwdOp):
    """`input` where `condition` is true, else `other`. Source: `torch.where`."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            condition: `bool[*C]`
            input: `T[*A]`
            other: `T[*B]`

        Calls return:
            output: `T[*broadcast(C, A, B)]`
        """

    def __call__(self, condition: Tensor, input: Tensor, other: Tensor) -> Tensor:
        """Call the op.

        Args:
            condition: `bool[*C]`
            input: `T[*A]`
            other: `T[*B]`

        Returns:
            output: `T[*broadcast(C, A, B)]`

        ∀ C, A, B : Shape, T ∈ {float16, bfloat16, float32}
        """
