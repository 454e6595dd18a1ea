"""Norms of channels: interfaces take `[B, C, L]`; ops flatten the spatial axes.

Running statistics are updated as `(1 - momentum) * running + momentum * batch`, with the unbiased
variance, in place. Not for TileLang programs, which `programs.py` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tileops.kernels import CallSpec, KernelInterface, PortableKernel
from tileops.norm.kernels.lone import lone_norm


@dataclass(frozen=True)
class RunningNormCall(CallSpec):
    """A norm of channels that may keep running statistics.

    Args:
        uses_input: whether statistics are those of the input, not the running ones.
        momentum: weight of the input's statistics in the running ones.
        eps: added to the variance.
        has_running: whether there are running statistics; true where the input's are not used.
        has_weight: whether a weight is applied.
        has_bias: whether a bias is added.
        dtype: element type of input and result.
    """

    uses_input: bool
    momentum: float
    eps: float
    has_running: bool
    has_weight: bool
    has_bias: bool
    dtype: torch.dtype


class BatchNormFwdInterface(KernelInterface):
    """`(x - mean) / sqrt(var + eps) * weight + bias` for each channel over batch and space."""

    request = RunningNormCall

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Normalise every channel.

        Args:
            x: `[B, C, L]` in `call.dtype`, contiguous, on `call.device`; read.
            running_mean: `[C]` float32, any stride, or None exactly when `call.has_running` is
                false; read, and written where `call.uses_input` is true and `x` has elements.
            running_var: likewise.
            weight: `[C]` float32, contiguous, or None exactly when `call.has_weight` is false;
                read.
            bias: likewise by `call.has_bias`; read.

        Returns:
            A new contiguous `[B, C, L]` in `call.dtype`, normalised by the biased variance of
            centred values in float32, rounded once.
        """


class BatchNormPortableKernel(PortableKernel[RunningNormCall], BatchNormFwdInterface):
    """BatchNorm by torch."""

    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Normalise every channel."""
        call = self.call
        if not x.numel():
            return torch.empty_like(x)
        if call.uses_input and weight is None:
            weight = _wide_ones(x, x.shape[1])
        return F.batch_norm(
            x, running_mean, running_var, weight, bias, call.uses_input, call.momentum, call.eps
        )


@dataclass(frozen=True)
class InstanceNormCall(RunningNormCall):
    """The same of samples of `channels` channels of `n` elements."""

    channels: int
    n: int

    @property
    def split(self) -> tuple[int, int, int]:
        """Rows of a sample, channels of a row, elements of a channel."""
        return self.channels, 1, self.n


class InstanceNormFwdInterface(KernelInterface):
    """As BatchNorm, with statistics of each channel of each sample over space."""

    request = InstanceNormCall

    @abstractmethod
    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Normalise every channel of every sample.

        Args:
            x: `[B, C, L]` in `call.dtype`, contiguous, on `call.device`; read.
            running_mean: `[C]` float32, any stride, or None exactly when `call.has_running` is
                false; read, and written where `call.uses_input` is true and `x` has elements,
                from the average over the batch of the samples' statistics.
            running_var: likewise.
            weight: `[C]` in `call.dtype`, contiguous, or None exactly when `call.has_weight` is
                false; read.
            bias: likewise by `call.has_bias`; read.

        Returns:
            A new contiguous `[B, C, L]` in `call.dtype`, as BatchNorm gives it.
        """


class InstanceNormPortableKernel(PortableKernel[InstanceNormCall], InstanceNormFwdInterface):
    """InstanceNorm by torch: GroupNorm of groups of one channel, or BatchNorm in evaluation."""

    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """Normalise every channel of every sample."""
        call = self.call
        if not x.numel():
            return torch.empty_like(x)
        if not call.uses_input:
            weight, bias = (None if part is None else part.float() for part in (weight, bias))
            return F.batch_norm(x, running_mean, running_var, weight, bias, eps=call.eps)
        if running_mean is not None and running_var is not None:
            var, mean = _moments(x.float())
            running_mean.lerp_(mean.mean(0), call.momentum)
            running_var.lerp_(var.mean(0), call.momentum)
        if x.dtype is torch.float16 and x.is_cpu:
            return self._of_half(x, weight, bias)
        return F.group_norm(x, x.shape[1], weight, bias, call.eps)

    def _of_half(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """BatchNorm of as many channels as there are in all samples, as torch does it."""
        count, channels, length = x.shape
        weight, bias = (
            None if part is None else part.float().repeat(count) for part in (weight, bias)
        )
        if weight is None:
            weight = _wide_ones(x, count * channels)
        flat = x.view(1, count * channels, length)
        eps = self.call.eps
        normed, *_ = torch.native_batch_norm(flat, weight, bias, None, None, True, 0.0, eps)
        return normed.view(x.shape)


def _wide_ones(x: Tensor, channels: int) -> Tensor | None:
    """A weight that changes nothing, for a batch norm of 16 bits on a CPU.

    Torch keeps mean and deviation in float32 there only beside a float32 tensor.
    """
    if not x.is_cpu or x.dtype.itemsize > 2:
        return None
    return torch.ones(channels, dtype=torch.float32, device=x.device)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Unbiased variance and mean of rows; torch's own goes element by element on a CPU."""
    if not x.is_cpu:
        return torch.var_mean(x, -1)
    mean = x.mean(-1, keepdim=True)
    spread = torch.linalg.vector_norm(x - mean, dim=-1).square_()
    return spread / (x.shape[-1] - 1), mean.squeeze(-1)


@dataclass(frozen=True)
class GroupNormCall(CallSpec):
    """GroupNorm of `groups` groups of `channels` channels of `length` elements.

    With or without weight and bias.
    """

    groups: int
    channels: int
    length: int
    eps: float
    has_weight: bool
    has_bias: bool
    dtype: torch.dtype

    @property
    def split(self) -> tuple[int, int, int]:
        """Groups of a sample, channels of a group, elements of a channel."""
        return self.groups, self.channels // self.groups, self.length

    @property
    def n(self) -> int:
        """Elements of a group."""
        return self.channels // self.groups * self.length


class GroupNormFwdInterface(KernelInterface):
    """`(x - mean) / sqrt(var + eps) * weight + bias`, statistics by sample and group."""

    request = GroupNormCall

    @abstractmethod
    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every group of every sample.

        Args:
            x: `[B, C, L]` in `call.dtype`, contiguous, on `call.device`; read. `call.groups`
                divides `C`.
            weight: `[C]` likewise, or None exactly when `call.has_weight` is false; read.
            bias: `[C]` likewise, or None exactly when `call.has_bias` is false; read.

        Returns:
            A new contiguous `[B, C, L]` in `call.dtype`, normalised by the biased variance of
            centred values in float32, rounded once.
        """


class GroupNormPortableKernel(PortableKernel[GroupNormCall], GroupNormFwdInterface):
    """GroupNorm by torch, which forms the statistics in float32 by Welford's recurrence."""

    def forward(self, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        """Normalise every group."""
        if self.call.n == 1:
            weight, bias = (None if part is None else part[:, None] for part in (weight, bias))
            return lone_norm(x, weight, bias)
        return F.group_norm(x, self.call.groups, weight, bias, self.call.eps)


@dataclass(frozen=True)
class BatchNormBwdCall(CallSpec):
    """Gradients of BatchNorm in training.

    Args:
        length: elements of a channel of a sample.
        count: elements of a channel in all samples.
        dtype: element type of the data and of their gradients.
    """

    length: int
    count: int
    dtype: torch.dtype


class BatchNormBwdInterface(KernelInterface):
    """Gradients of the input, the weight and the bias of BatchNorm in training.

    With `y = (x - mean) * rstd`, sums and means over batch and space: `grad_bias = sum(grad_out)`,
    `grad_weight = sum(grad_out * y)`, `grad_x = (grad_out - mean(grad_out) - y * mean(grad_out *
    y)) * weight * rstd`.
    """

    request = BatchNormBwdCall

    @abstractmethod
    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients.

        Args:
            grad_out: `[B, C, L]` in `call.dtype`, contiguous, on `call.device`; read.
            x: `[B, C, L]` likewise; read.
            weight: `[C]` float32, contiguous; read.
            mean: `[C]` likewise; read.
            rstd: `[C]` likewise; read.

        Returns:
            `(grad_x, grad_weight, grad_bias)`: a new contiguous `[B, C, L]` in `call.dtype`,
            rounded once, and two new `[C]` in float32, 0 where there is nothing to add up.
        """


class BatchNormBwdPortableKernel(PortableKernel[BatchNormBwdCall], BatchNormBwdInterface):
    """The gradients by torch."""

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        if not x.numel():
            return torch.empty_like(x), torch.zeros_like(weight), torch.zeros_like(weight)
        dtype = x.dtype
        if not x.is_cpu:  # there torch rounds to 16 bits on the way
            grad_out, x = grad_out.float(), x.float()
        grad_x, grad_weight, grad_bias = torch.ops.aten.native_batch_norm_backward(
            grad_out, x, weight, None, None, mean, rstd, True, 0.0, [True, True, True]
        )
        return grad_x.to(dtype), grad_weight, grad_bias
