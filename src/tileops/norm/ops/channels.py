"""Norms of channels: spatial axes are flattened."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from tileops._core.op import Op
from tileops.norm.kernels import (
    BatchNormBwdCall,
    BatchNormBwdInterface,
    BatchNormBwdPortableKernel,
    BatchNormBwdTileKernel,
    BatchNormFwdInterface,
    BatchNormPortableKernel,
    GroupNormCall,
    GroupNormFwdInterface,
    GroupNormOnChipKernel,
    GroupNormPortableKernel,
    InstanceNormCall,
    InstanceNormFwdInterface,
    InstanceNormOnChipKernel,
    InstanceNormPortableKernel,
    RunningNormCall,
)
from tileops.norm.ops.layout import as_channels, as_vector

__all__ = [
    "BatchNormFwdOp",
    "BatchNormBwdOp",
    "GroupNormFwdOp",
    "InstanceNormFwdOp",
]


class _RunningNormOp(Op):
    """Norm of channels by the input's or by running statistics, as the parameter `choice` says."""

    choice: ClassVar[str]
    momentum: float
    eps: float

    def forward(
        self,
        x: Tensor,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Normalise the channels of `x`."""
        channels = as_channels(x)
        call = self._call(
            channels,
            getattr(self, self.choice),
            self.momentum,
            self.eps,
            running_mean is not None,
            weight is not None,
            bias is not None,
            x.dtype,
        )
        (interface,) = self.interfaces
        kernel = self.kernel_for(interface, call)
        affine = as_vector(weight), as_vector(bias)
        return kernel(channels, running_mean, running_var, *affine).view(x.shape)

    def _call(self, channels: Tensor, *facts: Any) -> RunningNormCall:
        """The call spec."""
        return RunningNormCall(*facts, device=channels.device)


class BatchNormFwdOp(_RunningNormOp):
    """Norm of each channel over batch and space, by its own or by running statistics.

    In training the biased variance normalises, and running statistics, where given, are updated in
    place: `(1 - momentum) * running + momentum * batch`, with the unbiased variance. An empty
    batch leaves them as they are. Evaluation writes nothing. Statistics are float32 for every
    dtype, of centred values; the result is rounded once.

    Source: `torch.nn.functional.batch_norm`.
    """

    kernel_types = {"portable": BatchNormPortableKernel}
    interfaces = {"batch_norm": BatchNormFwdInterface}
    choice = "training"

    def __init__(
        self,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
        *,
        target: str | None = None,
    ) -> None:
        self.training = training
        self.momentum = momentum
        self.eps = eps
        super().__init__(target=target)


class BatchNormBwdOp(Op):
    """Gradients of batch norm in training: returns `(grad_x, grad_weight, grad_bias)`.

    `mean` and `rstd = 1 / sqrt(var + eps)`, with the biased variance, are those of the forward
    pass. Sums are float32.

    Source: `aten.native_batch_norm_backward`.
    """

    kernel_types = {"tile": BatchNormBwdTileKernel, "portable": BatchNormBwdPortableKernel}
    interfaces = {"batch_norm_bwd": BatchNormBwdInterface}

    def forward(
        self, grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the gradients."""
        channels = as_channels(x)
        batch, _, length = channels.shape
        call = BatchNormBwdCall(length, batch * length, x.dtype, device=x.device)
        statistics = (vector.contiguous() for vector in (weight, mean, rstd))
        kernel = self.kernel_for("batch_norm_bwd", call)
        grad_x, grad_weight, grad_bias = kernel(as_channels(grad_out), channels, *statistics)
        return grad_x.view(x.shape), grad_weight, grad_bias


class GroupNormFwdOp(Op):
    """Norm of each group of channels of each sample, with an affine map per channel.

    Statistics are float32 for every dtype, the biased variance is of centred values, and the
    result is rounded once.

    Source: `torch.nn.functional.group_norm`.
    """

    kernel_types = {
        "on_chip": GroupNormOnChipKernel,
        "portable": GroupNormPortableKernel,
    }
    interfaces = {"group_norm": GroupNormFwdInterface}

    def __init__(self, num_groups: int, eps: float = 1e-5, *, target: str | None = None) -> None:
        self.num_groups = num_groups
        self.eps = eps
        super().__init__(target=target)

    def forward(
        self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Normalise the groups of `x`."""
        channels = as_channels(x)
        call = GroupNormCall(
            self.num_groups,
            channels.shape[1],
            channels.shape[2],
            self.eps,
            weight is not None,
            bias is not None,
            x.dtype,
            device=x.device,
        )
        kernel = self.kernel_for("group_norm", call)
        return kernel(channels, as_vector(weight), as_vector(bias)).view(x.shape)


class InstanceNormFwdOp(_RunningNormOp):
    """Norm of each channel of each sample over space, by its own or by running statistics.

    Where the input's statistics are used, running ones are updated in place as `BatchNormFwdOp`
    does, from the average of the samples' statistics.

    Source: `torch.nn.functional.instance_norm`.
    """

    kernel_types = {
        "on_chip": InstanceNormOnChipKernel,
        "portable": InstanceNormPortableKernel,
    }
    interfaces = {"instance_norm": InstanceNormFwdInterface}
    choice = "use_input_stats"

    def __init__(
        self,
        use_input_stats: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-5,
        *,
        target: str | None = None,
    ) -> None:
        self.use_input_stats = use_input_stats
        self.momentum = momentum
        self.eps = eps
        super().__init__(target=target)

    def _call(self, channels: Tensor, *facts: Any) -> InstanceNormCall:
        """The call spec."""
        return InstanceNormCall(*facts, *channels.shape[1:], device=channels.device)
