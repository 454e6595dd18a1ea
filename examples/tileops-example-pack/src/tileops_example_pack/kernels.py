"""The kernel interface of soft-capping, and its implementation in plain torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch
from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from torch import Tensor


@dataclass(frozen=True)
class SoftcapCall(CallSpec):
    """Soft-capping of any number of elements."""

    cap: float
    dtype: torch.dtype


class SoftcapFwdInterface(KernelInterface):
    """`cap * tanh(x / cap)` for each element."""

    request = SoftcapCall

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Bound every element.

        Args:
            x: `[n]` in `call.dtype`, contiguous, on `call.device`; read.

        Returns:
            A new contiguous `[n]` in `call.dtype`, computed in float32 and rounded once. `n` is
            positive and varies between calls.
        """


class SoftcapPortableKernel(PortableKernel[SoftcapCall], SoftcapFwdInterface):
    """Soft-capping by torch."""

    @classmethod
    def entry_for(cls, call: SoftcapCall) -> tuple[Hashable, Callable[[], SoftcapPortableKernel]]:
        """One build for each bound; the dtype changes nothing that is built."""
        return call.cap, lambda: cls(call)

    def forward(self, x: Tensor) -> Tensor:
        """Bound every element."""
        return (torch.tanh(x.float() / self.call.cap) * self.call.cap).to(x.dtype)
