"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Literal

import torch
from torch import Tensor

from tileops.norm.ops import channels as _channels
from tileops.norm.ops import fused as _fused
from tileops.norm.ops import gradients as _gradients
from tileops.norm.ops import rows as _rows

__all__ = [
    "AdaLayerNormBwdOp",
    "AdaLayerNormFwdOp",
    "AdaLayerNormZeroBwdOp",
    "AdaLayerNormZeroFwdOp",
    "BatchNormBwdOp",
    "BatchNormFwdOp",
    "FusedAddLayerNormBwdOp",
    "FusedAddLayerNormFwdOp",
    "FusedAddRMSNormBwdOp",
    "FusedAddRMSNormFwdOp",
    "FusedAddRMSNormPerTokenQuantFwdOp",
    "FusedQKNormRoPEFwdOp",
    "GroupNormBwdOp",
    "GroupNormFwdOp",
    "InstanceNormFwdOp",
    "LayerNormBwdOp",
    "LayerNormFwdOp",
    "RMSNormBwdOp",
    "RMSNormFwdOp",
]

class AdaLayerNormBwdOp(_gradients.AdaLayerNormBwdOp):
    """Gradients of `AdaLayerNormFwdOp`: returns `(grad_x, grad_scale, grad_shift)`.

    Statistics and products are float32 for every dtype and rounded once. Source: the derivative of
    the forward op.
    """

    def __init__(self, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*B, N]`
            x: `T[*B, N]`
            scale: `T[*B, N]`

        Calls return:
            grad_x: `T[*B, N]`
            grad_scale: `T[*B, N]`
            grad_shift: `T[*B, N]`
        """

    def __call__(self, grad_out: Tensor, x: Tensor, scale: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[*B, N]`
            x: `T[*B, N]`
            scale: `T[*B, N]`

        Returns:
            grad_x: `T[*B, N]`
            grad_scale: `T[*B, N]`
            grad_shift: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class AdaLayerNormFwdOp(_rows.AdaLayerNormFwdOp):
    """`layer_norm(x) * scale + shift` over the last axis; callers of DiT pass `1 + scale`.

    Statistics and products are float32 for every dtype and rounded once.

    Source: Peebles and Xie, "Scalable Diffusion Models with Transformers", 2022.
    """

    def __init__(self, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, N]`
            scale: `T[*B, N]`
            shift: `T[*B, N]`

        Calls return:
            output: `T[*B, N]`
        """

    def __call__(self, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*B, N]`
            scale: `T[*B, N]`
            shift: `T[*B, N]`

        Returns:
            output: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class AdaLayerNormZeroBwdOp(_gradients.AdaLayerNormZeroBwdOp):
    """Gradients of `AdaLayerNormZeroFwdOp`: of `x`, the scale, the shift and the gate.

    Statistics and products are float32 for every dtype and rounded once. Source: the derivative of
    the forward op.
    """

    def __init__(self, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*B, N]`
            x: `T[*B, N]`
            scale: `T[*B, N]`
            shift: `T[*B, N]`
            gate: `T[*B, N]`

        Calls return:
            grad_x: `T[*B, N]`
            grad_scale: `T[*B, N]`
            grad_shift: `T[*B, N]`
            grad_gate: `T[*B, N]`
        """

    def __call__(
        self, grad_out: Tensor, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[*B, N]`
            x: `T[*B, N]`
            scale: `T[*B, N]`
            shift: `T[*B, N]`
            gate: `T[*B, N]`

        Returns:
            grad_x: `T[*B, N]`
            grad_scale: `T[*B, N]`
            grad_shift: `T[*B, N]`
            grad_gate: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class AdaLayerNormZeroFwdOp(_rows.AdaLayerNormZeroFwdOp):
    """`gate * (layer_norm(x) * scale + shift)` over the last axis.

    Statistics and products are float32 for every dtype and rounded once.

    Source: Peebles and Xie, "Scalable Diffusion Models with Transformers", 2022.
    """

    def __init__(self, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, N]`
            scale: `T[*B, N]`
            shift: `T[*B, N]`
            gate: `T[*B, N]`

        Calls return:
            output: `T[*B, N]`
        """

    def __call__(self, x: Tensor, scale: Tensor, shift: Tensor, gate: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[*B, N]`
            scale: `T[*B, N]`
            shift: `T[*B, N]`
            gate: `T[*B, N]`

        Returns:
            output: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class BatchNormBwdOp(_channels.BatchNormBwdOp):
    """Gradients of batch norm in training: returns `(grad_x, grad_weight, grad_bias)`.

    `mean` and `rstd = 1 / sqrt(var + eps)`, with the biased variance, are those of the forward
    pass. Sums are float32.

    Source: `aten.native_batch_norm_backward`.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[B, C, *L]`
            x: `T[B, C, *L]`
            weight: `float32[C]`
            mean: `float32[C]`
            rstd: `float32[C]`

        Calls return:
            grad_x: `T[B, C, *L]`
            grad_weight: `float32[C]`
            grad_bias: `float32[C]`
        """

    def __call__(
        self, grad_out: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[B, C, *L]`
            x: `T[B, C, *L]`
            weight: `float32[C]`
            mean: `float32[C]`
            rstd: `float32[C]`

        Returns:
            grad_x: `T[B, C, *L]`
            grad_weight: `float32[C]`
            grad_bias: `float32[C]`

        ∀ B, C : Dim, L : Shape, T ∈ {float16, bfloat16, float32}
        """

class BatchNormFwdOp(_channels.BatchNormFwdOp):
    """Norm of each channel over batch and space, by its own or by running statistics.

    In training the biased variance normalises, and running statistics, where given, are updated in
    place: `(1 - momentum) * running + momentum * batch`, with the unbiased variance. An empty
    batch leaves them as they are. Evaluation writes nothing. Statistics are float32 for every
    dtype, of centred values; the result is rounded once.

    Source: `torch.nn.functional.batch_norm`.
    """

    def __init__(
        self,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-05,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            training: `bool`, False
            momentum: `float`, 0.1
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[B, C, *L]`
            running_mean: `float32[C]`, written when training and present(running_mean)
            running_var: `float32[C]`, given exactly when present(running_mean); written when training and present(running_mean)
            weight: `float32[C]`
            bias: `float32[C]`

        Calls return:
            output: `T[B, C, *L]`
        """

    def __call__(
        self,
        x: Tensor,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            x: `T[B, C, *L]`
            running_mean: `float32[C]`, written when training and present(running_mean)
            running_var: `float32[C]`, given exactly when present(running_mean); written when training and present(running_mean)
            weight: `float32[C]`
            bias: `float32[C]`

        Returns:
            output: `T[B, C, *L]`

        ∀ B, C : Dim, L : Shape, T ∈ {float16, bfloat16, float32}
        where training or present(running_mean)
          and not training or B * prod(L) != 1
        """

class FusedAddLayerNormBwdOp(_gradients.FusedAddLayerNormBwdOp):
    """Gradients of `FusedAddLayerNormFwdOp`: of both addends, the weight and the bias.

    Both addends have the same gradient, that of the norm plus that of `residual_out`. Sums are
    float32 for every dtype and rounded once.

    Source: the derivative of the forward op.
    """

    def __init__(self, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*B, N]`
            grad_residual_out: `T[*B, N]`
            residual_out: `T[*B, N]`
            weight: `T[N]`

        Calls return:
            grad_x: `T[*B, N]`
            grad_residual: `T[*B, N]`
            grad_weight: `T[N]`
            grad_bias: `T[N]`
        """

    def __call__(
        self, grad_out: Tensor, grad_residual_out: Tensor, residual_out: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[*B, N]`
            grad_residual_out: `T[*B, N]`
            residual_out: `T[*B, N]`
            weight: `T[N]`

        Returns:
            grad_x: `T[*B, N]`
            grad_residual: `T[*B, N]`
            grad_weight: `T[N]`
            grad_bias: `T[N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class FusedAddLayerNormFwdOp(_rows.FusedAddLayerNormFwdOp):
    """Residual addition and layer norm: returns `(layer_norm(residual_out), residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised, so that
    `output` equals `LayerNormFwdOp` applied to it. Nothing is written in place.

    Source: FlashAttention's fused layer norm, out of place.
    """

    def __init__(self, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, N]`
            residual: `T[*B, N]`
            weight: `T[N]`
            bias: `T[N]`

        Calls return:
            output: `T[*B, N]`
            residual_out: `T[*B, N]`
        """

    def __call__(
        self, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[*B, N]`
            residual: `T[*B, N]`
            weight: `T[N]`
            bias: `T[N]`

        Returns:
            output: `T[*B, N]`
            residual_out: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class FusedAddRMSNormBwdOp(_gradients.FusedAddRMSNormBwdOp):
    """Gradients of `FusedAddRMSNormFwdOp`: returns `(grad_x, grad_residual, grad_weight)`.

    Both addends have the same gradient, that of the norm plus that of `residual_out`. Sums are
    float32 for every dtype and rounded once.

    Source: the derivative of the forward op.
    """

    def __init__(self, eps: float = 1e-06, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-06
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*B, N]`
            grad_residual_out: `T[*B, N]`
            residual_out: `T[*B, N]`
            weight: `T[N]`

        Calls return:
            grad_x: `T[*B, N]`
            grad_residual: `T[*B, N]`
            grad_weight: `T[N]`
        """

    def __call__(
        self, grad_out: Tensor, grad_residual_out: Tensor, residual_out: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[*B, N]`
            grad_residual_out: `T[*B, N]`
            residual_out: `T[*B, N]`
            weight: `T[N]`

        Returns:
            grad_x: `T[*B, N]`
            grad_residual: `T[*B, N]`
            grad_weight: `T[N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class FusedAddRMSNormFwdOp(_rows.FusedAddRMSNormFwdOp):
    """Residual addition and RMSNorm: returns `(rms_norm(residual_out) * weight, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised, so that
    `output` equals `RMSNormFwdOp` of the same `eps` applied to it: left out, it is 1e-6 here and
    2⁻²³ there. Nothing is written in place.

    Source: FlashInfer's `fused_add_rmsnorm`, out of place.
    """

    def __init__(self, eps: float = 1e-06, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            eps: `float`, 1e-06
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, N]`
            residual: `T[*B, N]`
            weight: `T[N]`

        Calls return:
            output: `T[*B, N]`
            residual_out: `T[*B, N]`
        """

    def __call__(self, x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[*B, N]`
            residual: `T[*B, N]`
            weight: `T[N]`

        Returns:
            output: `T[*B, N]`
            residual_out: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16, float32}
        """

class FusedAddRMSNormPerTokenQuantFwdOp(_fused.FusedAddRMSNormPerTokenQuantFwdOp):
    """Residual addition, RMSNorm and quantisation by row: returns `(q, scale, residual_out)`.

    `residual_out = x + residual` is rounded to the input dtype before it is normalised; the norm
    `y` stays float32. `scale = amax(|y|) / qmax`, where `qmax` is 448 for float8 and 127 for int8
    and `scale_ub` bounds the amax; a row of zeros has the scale 1. `q = y / scale`, saturated.

    Source: vLLM's `rms_norm_dynamic_per_token_quant`.
    """

    def __init__(
        self,
        quant_dtype: torch.dtype = torch.float8_e4m3fn,
        eps: float = 1e-06,
        scale_ub: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            quant_dtype: `float8_e4m3fn | int8`, 'float8_e4m3fn'
            eps: `float`, 1e-06
            scale_ub: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, N]`
            residual: `T[*B, N]`
            weight: `T[N]`

        Calls return:
            q: `quant_dtype[*B, N]`
            scale: `float32[*B, 1]`
            residual_out: `T[*B, N]`
        """

    def __call__(
        self, x: Tensor, residual: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            x: `T[*B, N]`
            residual: `T[*B, N]`
            weight: `T[N]`

        Returns:
            q: `quant_dtype[*B, N]`
            scale: `float32[*B, 1]`
            residual_out: `T[*B, N]`

        ∀ B : Shape, N : Dim, T ∈ {float16, bfloat16}
        where N > 0
          and eps > 0
          and not present(scale_ub) or scale_ub.value > 0
        """

class FusedQKNormRoPEFwdOp(_fused.FusedQKNormRoPEFwdOp):
    """RMSNorm of every query and key head, then rotary embedding of its first channels, in place.

    Rows hold queries, keys and values of all heads; values are left alone. Row `positions[n]` of
    the table holds cosines in its left half and sines in its right, for as many channels as it is
    wide. Norm and rotation are float32 and rounded once. Positions are the caller's duty.

    Source: the attention of Qwen3 and GLM-4.5.
    """

    def __init__(
        self,
        num_heads: int,
        num_kv_heads: int,
        eps: float = 1e-06,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            num_heads: `int`
            num_kv_heads: `int`
            eps: `float`, 1e-06
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            target: what serves the instance; by default the device decides

        Calls take:
            qkv: `T[N, (num_heads + 2 * num_kv_heads) * D]`, written
            q_weight: `T[D]`
            k_weight: `T[D]`
            cos_sin_cache: `C[P, R]`
            positions: `int64[N]`, in_range(0, P)
        """

    def __call__(
        self,
        qkv: Tensor,
        q_weight: Tensor,
        k_weight: Tensor,
        cos_sin_cache: Tensor,
        positions: Tensor,
    ) -> None:
        """Call the op.

        Args:
            qkv: `T[N, (num_heads + 2 * num_kv_heads) * D]`, written
            q_weight: `T[D]`
            k_weight: `T[D]`
            cos_sin_cache: `C[P, R]`
            positions: `int64[N]`, in_range(0, P)

        ∀ N, D, P, R : Dim, T, C ∈ {float16, bfloat16, float32}, seq_lens : Seq[Int]
        where num_heads > 0 and num_kv_heads > 0
          and 0 < R <= D and R % 2 == 0
        """

class GroupNormBwdOp(_gradients.GroupNormBwdOp):
    """Gradients of `GroupNormFwdOp`: returns `(grad_x, grad_weight, grad_bias)`.

    `grad_weight` is None without a weight. Statistics, products and sums are float32 for every
    dtype and rounded once.

    Source: the derivative of `torch.nn.functional.group_norm`.
    """

    def __init__(self, num_groups: int, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            num_groups: `int`
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[B, C, *L]`
            x: `T[B, C, *L]`
            weight: `T[C]`

        Calls return:
            grad_x: `T[B, C, *L]`
            grad_weight: `T[C]`, None unless present(weight)
            grad_bias: `T[C]`
        """

    def __call__(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[B, C, *L]`
            x: `T[B, C, *L]`
            weight: `T[C]`

        Returns:
            grad_x: `T[B, C, *L]`
            grad_weight: `T[C]`, None unless present(weight)
            grad_bias: `T[C]`

        ∀ B, C : Dim, L : Shape, T ∈ {float16, bfloat16, float32}
        where num_groups > 0 and C % num_groups == 0
          and B * (C // num_groups) * prod(L) != 1
        """

class GroupNormFwdOp(_channels.GroupNormFwdOp):
    """Norm of each group of channels of each sample, with an affine map per channel.

    Statistics are float32 for every dtype, the biased variance is of centred values, and the
    result is rounded once.

    Source: `torch.nn.functional.group_norm`.
    """

    def __init__(self, num_groups: int, eps: float = 1e-05, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            num_groups: `int`
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[B, C, *L]`
            weight: `T[C]`
            bias: `T[C]`

        Calls return:
            output: `T[B, C, *L]`
        """

    def __call__(
        self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            x: `T[B, C, *L]`
            weight: `T[C]`
            bias: `T[C]`

        Returns:
            output: `T[B, C, *L]`

        ∀ B, C : Dim, L : Shape, T ∈ {float16, bfloat16, float32}
        where num_groups > 0 and C % num_groups == 0
          and B * (C // num_groups) * prod(L) != 1
        """

class InstanceNormFwdOp(_channels.InstanceNormFwdOp):
    """Norm of each channel of each sample over space, by its own or by running statistics.

    Where the input's statistics are used, running ones are updated in place as `BatchNormFwdOp`
    does, from the average of the samples' statistics.

    Source: `torch.nn.functional.instance_norm`.
    """

    def __init__(
        self,
        use_input_stats: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-05,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            use_input_stats: `bool`, True
            momentum: `float`, 0.1
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[B, C, *L]`
            running_mean: `float32[C]`, written when use_input_stats and present(running_mean)
            running_var: `float32[C]`, given exactly when present(running_mean); written when use_input_stats and present(running_mean)
            weight: `T[C]`
            bias: `T[C]`

        Calls return:
            output: `T[B, C, *L]`
        """

    def __call__(
        self,
        x: Tensor,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            x: `T[B, C, *L]`
            running_mean: `float32[C]`, written when use_input_stats and present(running_mean)
            running_var: `float32[C]`, given exactly when present(running_mean); written when use_input_stats and present(running_mean)
            weight: `T[C]`
            bias: `T[C]`

        Returns:
            output: `T[B, C, *L]`

        ∀ B, C : Dim, L : Shape, T ∈ {float16, bfloat16, float32}
        where use_input_stats or present(running_mean)
          and not use_input_stats or prod(L) != 1
        """

class LayerNormBwdOp(_gradients.LayerNormBwdOp):
    """Gradients of `LayerNormFwdOp`: returns `(grad_x, grad_weight, grad_bias)`.

    `grad_weight` is None without a weight. Statistics, products and sums are float32 for every
    dtype and rounded once.

    Source: the derivative of `torch.nn.functional.layer_norm`.
    """

    def __init__(
        self,
        normalized_shape: list[int] | tuple[int, ...],
        eps: float = 1e-05,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            normalized_shape: `list[int] | tuple[int, ...]`
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*B, *normalized_shape]`
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`

        Calls return:
            grad_x: `T[*B, *normalized_shape]`
            grad_weight: `T[*normalized_shape]`, None unless present(weight)
            grad_bias: `T[*normalized_shape]`
        """

    def __call__(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Call the op.

        Args:
            grad_out: `T[*B, *normalized_shape]`
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`

        Returns:
            grad_x: `T[*B, *normalized_shape]`
            grad_weight: `T[*normalized_shape]`, None unless present(weight)
            grad_bias: `T[*normalized_shape]`

        ∀ B : Shape, T ∈ {float16, bfloat16, float32}
        where len(normalized_shape) > 0
        """

class LayerNormFwdOp(_rows.LayerNormFwdOp):
    """Layer norm over the trailing axes: `(x - mean) / sqrt(var + eps) * weight + bias`.

    Statistics are float32 for every dtype, the biased variance is of centred values, and the
    result is rounded once.

    Source: `torch.nn.functional.layer_norm`.
    """

    def __init__(
        self,
        normalized_shape: list[int] | tuple[int, ...],
        eps: float = 1e-05,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            normalized_shape: `list[int] | tuple[int, ...]`
            eps: `float`, 1e-05
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`
            bias: `T[*normalized_shape]`

        Calls return:
            output: `T[*B, *normalized_shape]`
        """

    def __call__(
        self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Call the op.

        Args:
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`
            bias: `T[*normalized_shape]`

        Returns:
            output: `T[*B, *normalized_shape]`

        ∀ B : Shape, T ∈ {float16, bfloat16, float32}
        where len(normalized_shape) > 0
        """

class RMSNormBwdOp(_gradients.RMSNormBwdOp):
    """Gradients of `RMSNormFwdOp`: returns `(grad_x, grad_weight)`, the latter None without one.

    Statistics, products and sums are float32 for every dtype and rounded once.

    Source: the derivative of `torch.nn.functional.rms_norm`.
    """

    def __init__(
        self,
        normalized_shape: list[int] | tuple[int, ...],
        eps: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            normalized_shape: `list[int] | tuple[int, ...]`
            eps: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[*B, *normalized_shape]`
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`

        Calls return:
            grad_x: `T[*B, *normalized_shape]`
            grad_weight: `T[*normalized_shape]`, None unless present(weight)
        """

    def __call__(
        self, grad_out: Tensor, x: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Call the op.

        Args:
            grad_out: `T[*B, *normalized_shape]`
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`

        Returns:
            grad_x: `T[*B, *normalized_shape]`
            grad_weight: `T[*normalized_shape]`, None unless present(weight)

        ∀ B : Shape, T ∈ {float16, bfloat16, float32}
        where len(normalized_shape) > 0
        """

class RMSNormFwdOp(_rows.RMSNormFwdOp):
    """Root-mean-square norm over the trailing axes: `x / sqrt(mean(x²) + eps) * weight`.

    The mean and both products are float32 for every dtype and rounded once. `eps=None` means the
    machine epsilon of that arithmetic, 2⁻²³, also for 16-bit inputs. A row of zeros gives zeros.

    Source: `torch.nn.functional.rms_norm`.
    """

    def __init__(
        self,
        normalized_shape: list[int] | tuple[int, ...],
        eps: float | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            normalized_shape: `list[int] | tuple[int, ...]`
            eps: `float | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`

        Calls return:
            output: `T[*B, *normalized_shape]`
        """

    def __call__(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """Call the op.

        Args:
            x: `T[*B, *normalized_shape]`
            weight: `T[*normalized_shape]`

        Returns:
            output: `T[*B, *normalized_shape]`

        ∀ B : Shape, T ∈ {float16, bfloat16, float32}
        where len(normalized_shape) > 0
        """
