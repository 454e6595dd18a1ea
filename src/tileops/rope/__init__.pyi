"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Literal

from torch import Tensor

from tileops.rope import ops as _ops

__all__ = [
    "LongRoPEBwdOp",
    "LongRoPEFwdOp",
    "RoPEBwdOp",
    "RoPEFwdOp",
    "RoPELlama31BwdOp",
    "RoPELlama31FwdOp",
    "RoPENeoxPositionIdsBwdOp",
    "RoPENeoxPositionIdsFwdOp",
    "YaRNBwdOp",
    "YaRNFwdOp",
]

class LongRoPEBwdOp(_ops.LongRoPEBwdOp):
    """Gradient of `LongRoPEFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        rescale_factors: Tensor | None = None,
        max_position_embeddings: int = 4096,
        original_max_position_embeddings: int = 4096,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            rescale_factors: `tensor R[D // 2]`, None
            max_position_embeddings: `int`, 4096
            original_max_position_embeddings: `int`, 4096
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, grad_out: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T, R ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0
          and max_position_embeddings > 0 and original_max_position_embeddings > 0
          and max_position_embeddings <= original_max_position_embeddings or original_max_position_embeddings > 1
        """

class LongRoPEFwdOp(_ops.LongRoPEFwdOp):
    """Rotary embedding, neox layout, with each frequency divided by a factor of its own.

    With `r = max / original`, cosines and sines are scaled by `sqrt(1 + ln r / ln original)` for
    `r > 1`, so that position 0 is not the identity. An infinite factor stops its pair, a NaN
    yields NaN. The factors are read when a table is made; another tensor gives another table, and
    so does a change in place, which inference tensors do not show.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset. Pair `i` is channels `i`
    and `i + D / 2`.

    Source: Ding et al., "LongRoPE", 2024.
    """

    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        rescale_factors: Tensor | None = None,
        max_position_embeddings: int = 4096,
        original_max_position_embeddings: int = 4096,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            rescale_factors: `tensor R[D // 2]`, None
            max_position_embeddings: `int`, 4096
            original_max_position_embeddings: `int`, 4096
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            output: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            output: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T, R ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0
          and max_position_embeddings > 0 and original_max_position_embeddings > 0
          and max_position_embeddings <= original_max_position_embeddings or original_max_position_embeddings > 1
        """

class RoPEBwdOp(_ops.RoPEBwdOp):
    """Gradient of `RoPEFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    def __init__(
        self,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, grad_out: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0
        """

class RoPEFwdOp(_ops.RoPEFwdOp):
    """Rotary embedding with the frequencies `base^(-2i / D)`.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset: tokens that are decoded,
    or packed, have positions of their own and use `RoPENeoxPositionIdsFwdOp`.

    Pair `i` of a head is channels `i` and `i + D / 2` in the layout `neox`, by halves, and channels
    `2i` and `2i + 1` in the layout `interleaved`.

    Source: Su et al., "RoFormer", 2021.
    """

    def __init__(
        self,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            output: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            output: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0
        """

class RoPELlama31BwdOp(_ops.RoPELlama31BwdOp):
    """Gradient of `RoPELlama31FwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        scale_factor: float = 8.0,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        original_max_position: int = 8192,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            scale_factor: `float`, 8.0
            low_freq_factor: `float`, 1.0
            high_freq_factor: `float`, 4.0
            original_max_position: `int`, 8192
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, grad_out: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0
          and scale_factor == scale_factor and scale_factor != 0
          and low_freq_factor == low_freq_factor and low_freq_factor != 0
          and high_freq_factor == high_freq_factor and high_freq_factor != 0
          and low_freq_factor != high_freq_factor
        """

class RoPELlama31FwdOp(_ops.RoPELlama31FwdOp):
    """Rotary embedding, neox layout, with the frequencies of Llama 3.1.

    With the wave length `w = 2π / f`, frequencies with `w < original / high` stay, those with
    `w > original / low` are divided by `scale_factor`, and those between are blended by
    `t = (original / w - low) / (high - low)` into `(1 - t) f / scale_factor + t f`.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset. Pair `i` is channels `i`
    and `i + D / 2`.

    Source: the reference implementation of Llama 3.1.
    """

    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        scale_factor: float = 8.0,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        original_max_position: int = 8192,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            scale_factor: `float`, 8.0
            low_freq_factor: `float`, 1.0
            high_freq_factor: `float`, 4.0
            original_max_position: `int`, 8192
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            output: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            output: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0
          and scale_factor == scale_factor and scale_factor != 0
          and low_freq_factor == low_freq_factor and low_freq_factor != 0
          and high_freq_factor == high_freq_factor and high_freq_factor != 0
          and low_freq_factor != high_freq_factor
        """

class RoPENeoxPositionIdsBwdOp(_ops.RoPENeoxPositionIdsBwdOp):
    """Gradient of `RoPENeoxPositionIdsFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    def __init__(
        self,
        max_position: int,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            max_position: `int`
            base: `float`, 10000.0
            rotary_dim: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T[N, H, D]`
            position_ids: `P[N]`, in_range(0, max_position)

        Calls return:
            grad_x: `T[N, H, D]`
        """

    def __call__(self, grad_out: Tensor, position_ids: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T[N, H, D]`
            position_ids: `P[N]`, in_range(0, max_position)

        Returns:
            grad_x: `T[N, H, D]`

        ∀ N, H, D : Dim, T ∈ {float16, bfloat16, float32}, P ∈ {int32, int64}, seq_lens : Seq[Int]
        let r = rotary_dim.value if present(rotary_dim) else D
        where 0 < max_position <= 2147483648
          and 0 < r <= D and r % 2 == 0
          and base > 0
        """

class RoPENeoxPositionIdsFwdOp(_ops.RoPENeoxPositionIdsFwdOp):
    """Rotary embedding of packed tokens, neox layout, at given positions.

    Decoding uses it too, with the position of each new token. Pair `i` is channels `i` and
    `i + rotary_dim / 2`. The first `rotary_dim` channels are rotated, by default all; the others
    arrive bit for bit. Positions are below `max_position`, which is the caller's duty: checking it
    would wait for the device.

    Source: Su et al., "RoFormer", 2021.
    """

    def __init__(
        self,
        max_position: int,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            max_position: `int`
            base: `float`, 10000.0
            rotary_dim: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T[N, H, D]`
            position_ids: `P[N]`, in_range(0, max_position)

        Calls return:
            output: `T[N, H, D]`
        """

    def __call__(self, x: Tensor, position_ids: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T[N, H, D]`
            position_ids: `P[N]`, in_range(0, max_position)

        Returns:
            output: `T[N, H, D]`

        ∀ N, H, D : Dim, T ∈ {float16, bfloat16, float32}, P ∈ {int32, int64}, seq_lens : Seq[Int]
        let r = rotary_dim.value if present(rotary_dim) else D
        where 0 < max_position <= 2147483648
          and 0 < r <= D and r % 2 == 0
          and base > 0
        """

class YaRNBwdOp(_ops.YaRNBwdOp):
    """Gradient of `YaRNFwdOp`: the rotation by the opposite angles.

    Source: the transpose of the forward op.
    """

    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        scale: float = 16.0,
        original_max_position: int = 4096,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        attn_factor: float = 1.0,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            scale: `float`, 16.0
            original_max_position: `int`, 4096
            beta_fast: `float`, 32.0
            beta_slow: `float`, 1.0
            attn_factor: `float`, 1.0
            target: what serves the instance; by default the device decides

        Calls take:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, grad_out: Tensor) -> Tensor:
        """Call the op.

        Args:
            grad_out: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            grad_x: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0 and base != 1
          and scale > 0
          and original_max_position > 0
          and 0 < beta_fast < inf and 0 < beta_slow < inf
        """

class YaRNFwdOp(_ops.YaRNFwdOp):
    """Rotary embedding, neox layout, with frequencies interpolated by parts.

    Pair `c(β) = D ln(original / (2πβ)) / (2 ln base)` turns `β` times over the original length.
    From `floor(c(beta_fast))` to `ceil(c(beta_slow))`, clipped to `[0, D - 1]`, frequencies blend
    linearly from `f` into `f / scale`. Cosines and sines are scaled by
    `attn_factor * (0.1 ln(scale) + 1)`, the bracket being 1 for `scale <= 1`, so that position 0
    is not the identity.

    Row `s` of a sequence is at position `s`, from 0 on, without an offset. Pair `i` is channels `i`
    and `i + D / 2`.

    Source: Peng et al., "YaRN", 2023.
    """

    def __init__(
        self,
        input_layout: Literal["1d", "2d"] = "1d",
        base: float = 10000.0,
        scale: float = 16.0,
        original_max_position: int = 4096,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        attn_factor: float = 1.0,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            input_layout: `'1d' | '2d'`, '1d'
            base: `float`, 10000.0
            scale: `float`, 16.0
            original_max_position: `int`, 4096
            beta_fast: `float`, 32.0
            beta_slow: `float`, 1.0
            attn_factor: `float`, 1.0
            target: what serves the instance; by default the device decides

        Calls take:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Calls return:
            output: `T RoPEX[input_layout, B, S, H, D]`
        """

    def __call__(self, x: Tensor) -> Tensor:
        """Call the op.

        Args:
            x: `T RoPEX[input_layout, B, S, H, D]`

        Returns:
            output: `T RoPEX[input_layout, B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16, float32}
        type RoPEX[layout: '1d' | '2d', B: Dim, S: Dim, H: Dim, D: Dim] = match layout
          '1d' ⇒ [S, D]
          '2d' ⇒ [B, S, H, D]
        where D > 0 and D % 2 == 0
          and base > 0 and base != 1
          and scale > 0
          and original_max_position > 0
          and 0 < beta_fast < inf and 0 < beta_slow < inf
        """
