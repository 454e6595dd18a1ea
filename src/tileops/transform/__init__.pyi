"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from torch import Tensor

from tileops.transform import ops as _ops

__all__ = [
    "HadamardTransformFwdOp",
]

class HadamardTransformFwdOp(_ops.HadamardTransformFwdOp):
    """Walsh-Hadamard transform of the last axis, orthonormal: `x @ H.T / sqrt(n)`.

    `H(2 m) = [[H(m), H(m)], [H(m), -H(m)]]`, down to the matrix of order `base_order`, so that
    the base stands on the right of the Kronecker product. For `base_order = 1` the transform is
    its own inverse. The matrices of the other orders are Paley's: with `chi(a)` 1 for squares
    modulo a prime `q`, -1 for others, 0 for multiples, and `Q[i, j] = chi(i - j)`, orders 12 and
    20 are `I + [[0, 1], [-1, Q]]` for `q` = 11 and 19; order 28 is the Kronecker product of
    `[[0, 1], [1, Q]]` for `q` = 13 with `[[1, 1], [1, -1]]`, plus that of `I` with
    `[[1, -1], [-1, -1]]`; order 40 is the doubled matrix of order 20. Sums are float32, rounded
    once.

    Source: Sylvester, 1867; Paley, "On Orthogonal Matrices", 1933.
    """

    def __init__(self, base_order: int = 1, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            base_order: `int`, 1
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, n]`

        Calls return:
            output: `T[*B, n]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*B, n]`

        Returns:
            output: `T[*B, n]`

        ∀ B : Shape, n : Dim, T ∈ {float16, bfloat16, float32}
        where base_order in (1, 12, 20, 28, 40)
          and n > 0 and n % base_order == 0
          and 268435456 % (n // base_order) == 0
        """
