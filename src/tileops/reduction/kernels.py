"""Kernel interfaces of the reduction family and their plain-torch implementations.

Ops pass axes normalised and in order, never None. Not for TileLang programs, which `programs.py`
holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class ReductionCall(CallSpec):
    """A reduction over some axes of one tensor.

    Args:
        function: `"sum"`, `"mean"`, `"amax"` or `"norm"`.
        rank: number of axes of the input.
        axes: the reduced axes, non-negative and ascending; empty only for rank 0.
        keepdim: whether reduced axes stay with length 1.
        dtype: element type of the input.
        out_dtype: element type of the result, to which the input is cast before it is reduced.
        ord: order of the norm: 1, 2 or infinity; None for other functions.
    """

    function: str
    rank: int
    axes: tuple[int, ...]
    keepdim: bool
    dtype: torch.dtype
    out_dtype: torch.dtype
    ord: float | None = None


class ReductionFwdInterface(KernelInterface):
    """One value for all elements that agree on the axes which are not reduced."""

    request = ReductionCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Reduce `x` over `call.axes`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.
                A reduced axis may be empty except for `"amax"` and the norm of order infinity.

        Returns:
            A new contiguous tensor in `call.out_dtype`, without the reduced axes or, with
            `call.keepdim`, with length 1 there. Accumulation is float32, rounded once. NaN wins in
            `"amax"`.
        """


class ReductionPortableKernel(PortableKernel[ReductionCall], ReductionFwdInterface):
    """Reductions by torch, which accumulates half types in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Reduce over the axes of the call spec."""
        return FUNCTIONS[self.call.function](x, self.call).contiguous()


def _norm(x: Tensor, call: ReductionCall) -> Tensor:
    """The vector norm; the input is cast only where its dtype is not the result's."""
    ord = 2 if call.ord is None else call.ord
    norm: Tensor = torch.linalg.vector_norm(x, ord, call.axes, call.keepdim, dtype=call.out_dtype)
    return norm


FUNCTIONS: Mapping[str, Callable[[Tensor, ReductionCall], Tensor]] = {
    "amax": lambda x, call: torch.amax(x, call.axes, call.keepdim),
    "mean": lambda x, call: torch.mean(x, call.axes, call.keepdim, dtype=call.out_dtype),
    "norm": _norm,
    "sum": lambda x, call: torch.sum(x, call.axes, call.keepdim, dtype=call.out_dtype),
}
"""Torch's version of each function, by the name that call specs use."""


@dataclass(frozen=True)
class SoftmaxCall(CallSpec):
    """Softmax along one axis; the input is cast to `out_dtype` first."""

    rank: int
    axis: int
    dtype: torch.dtype
    out_dtype: torch.dtype


class SoftmaxFwdInterface(KernelInterface):
    """`exp(x - max) / sum(exp(x - max))` along an axis."""

    request = SoftmaxCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Normalise along `call.axis`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            A new contiguous tensor of `x`'s shape in `call.out_dtype`. Maximum, exponentials and
            sum are float32, rounded once. A row of -inf gives NaN.
        """


class SoftmaxPortableKernel(PortableKernel[SoftmaxCall], SoftmaxFwdInterface):
    """Softmax by torch."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise along the axis of the call spec."""
        return F.softmax(x, self.call.axis, dtype=self.call.out_dtype).contiguous()
