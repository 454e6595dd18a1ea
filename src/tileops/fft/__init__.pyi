"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from torch import Tensor

from tileops.fft import ops as _ops

__all__ = [
    "FFTC2CFwdOp",
]

class FFTC2CFwdOp(_ops.FFTC2CFwdOp):
    """Forward complex DFT of the last axis, unnormalised, of a power of two of elements.

    complex64 is float32 arithmetic, complex128 double throughout.

    Source: `torch.fft.fft`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            input: `T[*B, n]`

        Calls return:
            output: `T[*B, n]`
        """

    def __call__(self, input: Tensor) -> Tensor:
        """Call the op.

        Args:
            input: `T[*B, n]`

        Returns:
            output: `T[*B, n]`

        ∀ B : Shape, n : Dim, T ∈ {complex64, complex128}
        where n > 0
          and 268435456 % n == 0
        """
