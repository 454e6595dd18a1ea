"""Running values along an axis: interface and implementations."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel


@dataclass(frozen=True)
class ScanCall(CallSpec):
    """Running values along one axis; `function` is `"cumsum"` or `"cumprod"`."""

    function: str
    rank: int
    axis: int
    dtype: torch.dtype


class ScanFwdInterface(KernelInterface):
    """The sum or product of all elements up to each, along an axis."""

    request = ScanCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along `call.axis`.

        Args:
            x: `call.rank` axes of any length and strides, `call.dtype`, on `call.device`; read.

        Returns:
            A new contiguous tensor of `x`'s shape in `call.dtype`. The running value is float32;
            each element is rounded once.
        """


class ScanPortableKernel(PortableKernel[ScanCall], ScanFwdInterface):
    """Scans by torch, which carries half types in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Accumulate along the axis of the call spec."""
        function = torch.cumsum if self.call.function == "cumsum" else torch.cumprod
        return function(x, self.call.axis).contiguous()
