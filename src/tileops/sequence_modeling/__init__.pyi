"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from torch import Tensor

from tileops.sequence_modeling import ops as _ops

__all__ = [
    "MHCPostFwdOp",
    "MHCPreFwdOp",
]

class MHCPostFwdOp(_ops.MHCPostFwdOp):
    """What follows a layer: its result, times the gate of each copy, added to the mixed stream.

    `x_out[i] = x_res[i] + h_post[i] * x_layer_out` for each copy `i`, in float32, rounded once.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            x_layer_out: `bfloat16[B, c_x]`
            h_post: `float32[B, n]`
            x_res: `bfloat16[B, n * c_x]`

        Calls return:
            x_out: `bfloat16[B, n * c_x]`
        """

    def __call__(self, x_layer_out: Tensor, h_post: Tensor, x_res: Tensor) -> Tensor:
        """Call the op.

        Args:
            x_layer_out: `bfloat16[B, c_x]`
            h_post: `float32[B, n]`
            x_res: `bfloat16[B, n * c_x]`

        Returns:
            x_out: `bfloat16[B, n * c_x]`

        ∀ B, n, c_x : Dim
        """

class MHCPreFwdOp(_ops.MHCPreFwdOp):
    """What precedes a layer: the mixed stream, the layer's input, and the gates of its result.

    The stream, scaled by its root mean square, is projected onto coefficients. Those of the input
    and of the result pass through a sigmoid, twice as high for the result; the matrix that mixes
    the copies is made doubly stochastic by Sinkhorn's iteration. All of it is float32.

    Source: manifold-constrained hyper-connections, Xie et al. 2025.
    """

    def __init__(
        self,
        alpha_pre: float,
        alpha_post: float,
        alpha_res: float,
        sinkhorn_repeat: int,
        sinkhorn_eps: float = 0.02,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            alpha_pre: `float`
            alpha_post: `float`
            alpha_res: `float`
            sinkhorn_repeat: `int`
            sinkhorn_eps: `float`, 0.02
            target: what serves the instance; by default the device decides

        Calls take:
            phi: `float32[C, Q]`
            x: `bfloat16[B, C]`
            b: `float32[Q]`

        Calls return:
            x_res: `bfloat16[B, C]`
            x_layer: `bfloat16[B, c_x]`
            h_post: `float32[B, n]`
        """

    def __call__(self, phi: Tensor, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            phi: `float32[C, Q]`
            x: `bfloat16[B, C]`
            b: `float32[Q]`

        Returns:
            x_res: `bfloat16[B, C]`
            x_layer: `bfloat16[B, c_x]`
            h_post: `float32[B, n]`

        ∀ B, C, Q : Dim
        let n = mhc.expansion(Q)
        let c_x = C // n
        where C > 0
          and C % n == 0
        """
