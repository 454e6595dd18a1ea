"""Kernels of BatchNorm that TileLang makes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch import Tensor

from tileops._core.dispatch.toolchain import HOPPER, dtype_name
from tileops._kernels.alignment import aligned, widest_access
from tileops._kernels.scratch import scratch
from tileops.kernels import Kernel
from tileops.norm.kernels.channels import BatchNormBwdCall, BatchNormBwdInterface

_BLOCKS = 1056  # eight for each multiprocessor of an H200


class BatchNormBwdTileKernel(Kernel, BatchNormBwdInterface):
    """The gradients in two passes: the first adds up parts of every channel.

    Args:
        vector: elements of one access, a divisor of a channel of a sample.
        dtype: element type.
    """

    supported_archs = frozenset({HOPPER})

    LARGEST = 1 << 31
    """Elements of a channel in all samples, above which places do not fit 31 bits."""

    def __init__(self, vector: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.vector, self.dtype = vector, dtype

    @classmethod
    def refusal(cls, call: BatchNormBwdCall) -> str | None:
        """Refuses channels of too many elements."""
        if call.count >= cls.LARGEST:
            return f"adds up channels of fewer than {cls.LARGEST} elements, not of {call.count}"
        return super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: BatchNormBwdCall
    ) -> tuple[Hashable, Callable[[], BatchNormBwdTileKernel]]:
        """One build for all extents that allow the same accesses."""
        constants = (widest_access(call.length, call.dtype), call.dtype)
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Two accesses to each matrix in flight."""
        return {"threads": 256, "unroll": 2}

    def make_program(self, config: Mapping[str, Any]) -> tuple[Callable[..., None], ...]:
        """Compile the program of the sums, and that of the gradients."""
        from tileops.norm.programs import build_batch_norm_bwd, build_batch_norm_bwd_sums

        kind = dtype_name(self.dtype), self.vector
        builders = build_batch_norm_bwd_sums, build_batch_norm_bwd
        return tuple(build(*kind, **config).compile(HOPPER) for build in builders)

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        batch, channels, length = x.shape
        grad_x = torch.empty_like(x)
        if not x.numel():
            return grad_x, torch.zeros_like(weight), torch.zeros_like(weight)
        grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(weight)
        matrices = aligned(grad_out), aligned(x)
        accesses = batch * length // self.vector
        add_up, differentiate = self.program()
        parts, size = self._parts(accesses, _BLOCKS // channels)
        (sums,) = scratch(x.device, (2, channels, parts))
        add_up(*matrices, mean, rstd, sums, size)
        parts, size = self._parts(accesses, 4 * _BLOCKS // channels)
        results = grad_x, grad_weight, grad_bias
        differentiate(*matrices, weight, mean, rstd, sums, *results, parts, size)
        return results

    def _parts(self, accesses: int, most: int) -> tuple[int, int]:
        """Into how many parts a channel is cut, and their size, so that threads have work."""
        least = self.config["threads"] * self.config["unroll"]
        size = max(least, -(-accesses // max(1, most)))
        return -(-accesses // size), size
