"""Written by `tileops stubs` from specs and docstrings; edits are lost."""

from typing import Literal

import torch
from torch import Tensor

from tileops.attention.ops import dense as _dense
from tileops.attention.ops import gradients as _gradients
from tileops.attention.ops import latent as _latent
from tileops.attention.ops import paged as _paged
from tileops.attention.ops import varlen as _varlen

__all__ = [
    "GroupedQueryAttentionBwdOp",
    "GroupedQueryAttentionDenseBwdOp",
    "GroupedQueryAttentionDenseFwdOp",
    "GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp",
    "GroupedQueryAttentionVarlenBwdOp",
    "GroupedQueryAttentionVarlenFwdOp",
    "MultiHeadAttentionBwdOp",
    "MultiHeadLatentAttentionDecodeWithKVCacheFwdOp",
]

class GroupedQueryAttentionBwdOp(_gradients.GroupedQueryAttentionBwdOp):
    """Gradients of attention with grouped key and value heads: returns `(dq, dk, dv)`.

    Takes the result `o` and the natural logarithms `lse` of the sums that the softmax of the scores
    `q kᵀ / sqrt(D)` was divided by, as a forward pass kept them, so weights need no softmax. The
    gradients of keys and values are sums over their group of heads; sums are float32.

    Source: Dao, FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning,
    2023, algorithm 2.
    """

    def __init__(self, is_causal: bool = True, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            is_causal: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, D]`
            k: `T[B, S, H_kv, D]`
            v: `T[B, S, H_kv, D]`
            o: `T[B, S, H, D]`
            do: `T[B, S, H, D]`
            lse: `float32[B, H, S]`

        Calls return:
            dq: `T[B, S, H, D]`
            dk: `T[B, S, H_kv, D]`
            dv: `T[B, S, H_kv, D]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, D]`
            k: `T[B, S, H_kv, D]`
            v: `T[B, S, H_kv, D]`
            o: `T[B, S, H, D]`
            do: `T[B, S, H, D]`
            lse: `float32[B, H, S]`

        Returns:
            dq: `T[B, S, H, D]`
            dk: `T[B, S, H_kv, D]`
            dv: `T[B, S, H_kv, D]`

        ∀ B, S, H, H_kv, D : Dim, T ∈ {float16, bfloat16}
        where H_kv > 0 and H % H_kv == 0
        """

class GroupedQueryAttentionDenseBwdOp(_gradients.GroupedQueryAttentionDenseBwdOp):
    """Gradients of `GroupedQueryAttentionDenseFwdOp`: returns `(dq, dk, dv)`.

    Scores and weights are formed again from queries and keys. The gradients of keys and values are
    sums over their group of heads; those of rotated channels are rotated back. Sums are float32 and
    rounded once. There is no gradient through float8 codes.

    Source: the derivative of the forward op.
    """

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            is_causal: `bool`, True
            window_size_left: `int`, -1
            window_size_right: `int`, -1
            sm_scale: `float | None`, None
            softcap: `float | None`, None
            pos_encoding_mode: `'none' | 'rope'`, 'none'
            rotary_dim: `int | None`, None
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[B, S_q, H, D]`
            q: `T[B, S_q, H, D]`
            k: `T[B, S_kv, H_kv, D]`
            v: `T[B, S_kv, H_kv, D]`
            rope_cos: `T[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `T[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Calls return:
            dq: `T[B, S_q, H, D]`
            dk: `T[B, S_kv, H_kv, D]`
            dv: `T[B, S_kv, H_kv, D]`
        """

    def __call__(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            do: `T[B, S_q, H, D]`
            q: `T[B, S_q, H, D]`
            k: `T[B, S_kv, H_kv, D]`
            v: `T[B, S_kv, H_kv, D]`
            rope_cos: `T[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `T[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Returns:
            dq: `T[B, S_q, H, D]`
            dk: `T[B, S_kv, H_kv, D]`
            dv: `T[B, S_kv, H_kv, D]`

        ∀ B, S_q, S_kv, H, H_kv, D, P_pad : Dim, T ∈ {float16, bfloat16, float32}
        let R = rotary_dim.value if present(rotary_dim) else D
        where H_kv > 0 and H % H_kv == 0
          and window_size_left >= -1 and window_size_right >= -1
          and not present(softcap) or softcap.value >= 0
          and not present(rotary_dim) or pos_encoding_mode == 'rope' and 0 < rotary_dim.value <= D and rotary_dim.value % 2 == 0
          and not is_causal or S_q <= S_kv
          and pos_encoding_mode == 'none' or S_q <= S_kv
        """

class GroupedQueryAttentionDenseFwdOp(_dense.GroupedQueryAttentionDenseFwdOp):
    """Attention of a batch with grouped key and value heads; decoding is a call with one query.

    `o = softmax(sm_scale * q kᵀ) v`, the scores bounded by `softcap * tanh(scores / softcap)` where
    it is positive, and masked after that. Query `i` stands at `i + S_kv - S_q`, so a causal mask is
    aligned at the bottom right. A row that sees no key gives zeros. Key and value head of query
    head `h` is `h // (H / H_kv)`. Positions come before heads, not after them as in
    `torch.nn.functional.scaled_dot_product_attention`.

    The window sizes make a sliding window: a query sees that many keys before its place and after
    it, and the one at its place; -1 sets no limit.

    With `pos_encoding_mode="rope"` the first `rotary_dim` channels of queries and keys are rotated
    by tables that are indexed by position. float8 inputs come with scales and an `out_dtype`.
    """

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        out_dtype: torch.dtype | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            is_causal: `bool`, True
            window_size_left: `int`, -1
            window_size_right: `int`, -1
            sm_scale: `float | None`, None
            softcap: `float | None`, None
            pos_encoding_mode: `'none' | 'rope'`, 'none'
            rotary_dim: `int | None`, None
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            out_dtype: `float16 | bfloat16 | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S_q, H, D]`
            k: `T[B, S_kv, H_kv, D]`
            v: `T[B, S_kv, H_kv, D]`
            q_scale: `float32[B, H_kv]`
            k_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            v_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            rope_cos: `(coalesce_dtype(out_dtype, T))[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `(coalesce_dtype(out_dtype, T))[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Calls return:
            o: `(coalesce_dtype(out_dtype, T))[B, S_q, H, D]`
        """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None = None,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            q: `T[B, S_q, H, D]`
            k: `T[B, S_kv, H_kv, D]`
            v: `T[B, S_kv, H_kv, D]`
            q_scale: `float32[B, H_kv]`
            k_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            v_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            rope_cos: `(coalesce_dtype(out_dtype, T))[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `(coalesce_dtype(out_dtype, T))[S_kv + P_pad, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Returns:
            o: `(coalesce_dtype(out_dtype, T))[B, S_q, H, D]`

        ∀ B, S_q, S_kv, H, H_kv, D, P_pad : Dim, T ∈ {float16, bfloat16, float32, float8_e4m3fn}
        let R = rotary_dim.value if present(rotary_dim) else D
        where H_kv > 0 and H % H_kv == 0
          and window_size_left >= -1 and window_size_right >= -1
          and not present(softcap) or softcap.value >= 0
          and (T == 'float8_e4m3fn') == present(q_scale)
          and present(out_dtype) if T == 'float8_e4m3fn' else not present(out_dtype) or out_dtype.value == T
          and not present(rotary_dim) or pos_encoding_mode == 'rope' and 0 < rotary_dim.value <= D and rotary_dim.value % 2 == 0
          and not is_causal or S_q <= S_kv
          and pos_encoding_mode == 'none' or S_q <= S_kv
        """

class GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp(_paged.GroupedQueryAttentionPrefillPagedWithKVCacheFwdOp):
    """New keys and values into the pages of their requests, then attention over prefix and new.

    Token `t` of request `b` stands at position `cache_seqlens[b] + t`, whose row in the pages is
    found by the request's row of `block_table`; `cache_seqlens` are the lengths before the call and
    stay. Attention is that of `GroupedQueryAttentionVarlenFwdOp` on what the pages hold, so new
    keys and values count as they were stored: float8 pages hold codes of `x / scale`.

    `fuse_rope` rotates the first `rotary_dim` channels of queries and new keys, in halves, by
    `position * rope_base ** (-2 i / rotary_dim)`; positions from `max_position` on turn like the
    last before it. Pages hold rotated keys.

    Offsets, lengths and the table are the caller's promise, as checking them would wait for the
    device: requests of at most `max_seqlen_q` new tokens, room for them in the pages of the table,
    and pages that are there.
    """

    def __init__(
        self,
        page_size: int,
        max_seqlen_q: int,
        is_causal: bool = True,
        cache_dtype: torch.dtype | None = None,
        sm_scale: float | None = None,
        softcap: float | None = None,
        fuse_rope: bool = False,
        rope_base: float = 10000.0,
        max_position: int | None = None,
        rotary_dim: int | None = None,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            page_size: `int`
            max_seqlen_q: `int`
            is_causal: `bool`, True
            cache_dtype: `float16 | bfloat16 | float8_e4m3fn | None`, None
            sm_scale: `float | None`, None
            softcap: `float | None`, None
            fuse_rope: `bool`, False
            rope_base: `float`, 10000.0
            max_position: `int | None`, None
            rotary_dim: `int | None`, None
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[T_q, H, D]`
            k_new: `T[T_q, H_kv, D]`
            v_new: `T[T_q, H_kv, D]`
            k_pages: `(coalesce_dtype(cache_dtype, T))[PT, H_kv, D]`, written, contiguous
            v_pages: `(coalesce_dtype(cache_dtype, T))[PT, H_kv, D]`, written, contiguous
            k_scale: `float32[1]`
            v_scale: `float32[1]`
            cu_seqlens_q: `int32[B + 1]`, prefix_offsets(T_q), max_segment(max_seqlen_q)
            cache_seqlens: `int32[B]`, in_range(0, W * page_size + 1), attn.paged_fits(cu_seqlens_q, W * page_size)
            block_table: `int32[B, W]`, in_range(0, NP)

        Calls return:
            o: `T[T_q, H, D]`
        """

    def __call__(
        self,
        q: Tensor,
        k_new: Tensor,
        v_new: Tensor,
        k_pages: Tensor,
        v_pages: Tensor,
        k_scale: Tensor,
        v_scale: Tensor,
        cu_seqlens_q: Tensor,
        cache_seqlens: Tensor,
        block_table: Tensor,
    ) -> Tensor:
        """Call the op.

        Args:
            q: `T[T_q, H, D]`
            k_new: `T[T_q, H_kv, D]`
            v_new: `T[T_q, H_kv, D]`
            k_pages: `(coalesce_dtype(cache_dtype, T))[PT, H_kv, D]`, written, contiguous
            v_pages: `(coalesce_dtype(cache_dtype, T))[PT, H_kv, D]`, written, contiguous
            k_scale: `float32[1]`
            v_scale: `float32[1]`
            cu_seqlens_q: `int32[B + 1]`, prefix_offsets(T_q), max_segment(max_seqlen_q)
            cache_seqlens: `int32[B]`, in_range(0, W * page_size + 1), attn.paged_fits(cu_seqlens_q, W * page_size)
            block_table: `int32[B, W]`, in_range(0, NP)

        Returns:
            o: `T[T_q, H, D]`

        ∀ T_q, H, H_kv, D, PT, B, W : Dim, T ∈ {float16, bfloat16, float32}, q_lens, cache_lens : Seq[Int]
        let NP = PT // page_size
        where H_kv > 0 and H % H_kv == 0
          and page_size > 0 and max_seqlen_q > 0
          and PT % page_size == 0
          and not present(cache_dtype) or cache_dtype.value == 'float8_e4m3fn' or cache_dtype.value == T
          and not present(softcap) or softcap.value >= 0
          and not present(rotary_dim) or fuse_rope and 0 < rotary_dim.value <= D and rotary_dim.value % 2 == 0
          and not fuse_rope or present(max_position) and max_position.value > 0
        """

class GroupedQueryAttentionVarlenBwdOp(_gradients.GroupedQueryAttentionVarlenBwdOp):
    """Gradients of `GroupedQueryAttentionVarlenFwdOp`: returns `(dq, dk, dv)`.

    As those of dense attention, of each request over its own keys; the offsets are the caller's
    promise. Sums are float32 and rounded once. There is no gradient through float8 codes.

    Source: the derivative of the forward op.
    """

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            is_causal: `bool`, True
            window_size_left: `int`, -1
            window_size_right: `int`, -1
            sm_scale: `float | None`, None
            softcap: `float | None`, None
            pos_encoding_mode: `'none' | 'rope'`, 'none'
            rotary_dim: `int | None`, None
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            target: what serves the instance; by default the device decides

        Calls take:
            do: `T[T_q, H, D]`
            q: `T[T_q, H, D]`
            k: `T[T_kv, H_kv, D]`
            v: `T[T_kv, H_kv, D]`
            cu_seqlens_q: `int32[B + 1]`, prefix_offsets(T_q)
            cu_seqlens_kv: `int32[B + 1]`, prefix_offsets(T_kv)
            rope_cos: `T[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `T[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Calls return:
            dq: `T[T_q, H, D]`
            dk: `T[T_kv, H_kv, D]`
            dv: `T[T_kv, H_kv, D]`
        """

    def __call__(
        self,
        do: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            do: `T[T_q, H, D]`
            q: `T[T_q, H, D]`
            k: `T[T_kv, H_kv, D]`
            v: `T[T_kv, H_kv, D]`
            cu_seqlens_q: `int32[B + 1]`, prefix_offsets(T_q)
            cu_seqlens_kv: `int32[B + 1]`, prefix_offsets(T_kv)
            rope_cos: `T[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `T[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Returns:
            dq: `T[T_q, H, D]`
            dk: `T[T_kv, H_kv, D]`
            dv: `T[T_kv, H_kv, D]`

        ∀ T_q, T_kv, H, H_kv, D, B, P : Dim, T ∈ {float16, bfloat16, float32}, q_lens, kv_lens : Seq[Int]
        let R = rotary_dim.value if present(rotary_dim) else D
        where H_kv > 0 and H % H_kv == 0
          and window_size_left >= -1 and window_size_right >= -1
          and not present(softcap) or softcap.value >= 0
          and not present(rotary_dim) or pos_encoding_mode == 'rope' and 0 < rotary_dim.value <= D and rotary_dim.value % 2 == 0
          and window_size_left == -1 and window_size_right == -1 or not present(sm_scale) and (not present(softcap) or softcap.value == 0)
        """

class GroupedQueryAttentionVarlenFwdOp(_varlen.GroupedQueryAttentionVarlenFwdOp):
    """Attention of packed requests, each over its own keys, with grouped key and value heads.

    `o = softmax(sm_scale * q kᵀ) v`, the scores bounded by `softcap * tanh(scores / softcap)` where
    it is positive, and masked after that. Query `i` of a request stands at `i + S_kv - S_q`, so a
    causal mask is aligned at the bottom right. A row that sees no key gives zeros. Key and value
    head of query head `h` is `h // (H / H_kv)`. The sliding window is that of
    `GroupedQueryAttentionDenseFwdOp`.

    With `pos_encoding_mode="rope"` the first `rotary_dim` channels of queries and keys are rotated
    by tables that are indexed by position; a position outside the tables reads their nearest row.
    float8 inputs come with scales and an `out_dtype`.

    The offsets are the caller's promise. `validate_inputs=True` checks them in every call, which
    reads them back from the device.
    """

    def __init__(
        self,
        is_causal: bool = True,
        window_size_left: int = -1,
        window_size_right: int = -1,
        sm_scale: float | None = None,
        softcap: float | None = None,
        out_dtype: torch.dtype | None = None,
        pos_encoding_mode: Literal["none", "rope"] = "none",
        rotary_dim: int | None = None,
        rope_layout: Literal["neox", "interleaved"] = "neox",
        validate_inputs: bool = False,
        *,
        target: str | None = None,
    ) -> None:
        """Construct the op.

        Args:
            is_causal: `bool`, True
            window_size_left: `int`, -1
            window_size_right: `int`, -1
            sm_scale: `float | None`, None
            softcap: `float | None`, None
            out_dtype: `float16 | bfloat16 | None`, None
            pos_encoding_mode: `'none' | 'rope'`, 'none'
            rotary_dim: `int | None`, None
            rope_layout: `'neox' | 'interleaved'`, 'neox'
            validate_inputs: `bool`, False
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[T_q, H, D]`
            k: `T[T_kv, H_kv, D]`
            v: `T[T_kv, H_kv, D]`
            cu_seqlens_q: `int32[B + 1]`, prefix_offsets(T_q)
            cu_seqlens_kv: `int32[B + 1]`, prefix_offsets(T_kv)
            q_scale: `float32[B, H_kv]`
            k_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            v_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            rope_cos: `(coalesce_dtype(out_dtype, T))[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `(coalesce_dtype(out_dtype, T))[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Calls return:
            o: `(coalesce_dtype(out_dtype, T))[T_q, H, D]`
        """

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        q_scale: Tensor | None = None,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
        rope_cos: Tensor | None = None,
        rope_sin: Tensor | None = None,
    ) -> Tensor:
        """Call the op.

        Args:
            q: `T[T_q, H, D]`
            k: `T[T_kv, H_kv, D]`
            v: `T[T_kv, H_kv, D]`
            cu_seqlens_q: `int32[B + 1]`, prefix_offsets(T_q)
            cu_seqlens_kv: `int32[B + 1]`, prefix_offsets(T_kv)
            q_scale: `float32[B, H_kv]`
            k_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            v_scale: `float32[B, H_kv]`, given exactly when present(q_scale)
            rope_cos: `(coalesce_dtype(out_dtype, T))[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'
            rope_sin: `(coalesce_dtype(out_dtype, T))[P, R // 2]`, given exactly when pos_encoding_mode == 'rope'

        Returns:
            o: `(coalesce_dtype(out_dtype, T))[T_q, H, D]`

        ∀ T_q, T_kv, H, H_kv, D, B, P : Dim, T ∈ {float16, bfloat16, float32, float8_e4m3fn}, q_lens, kv_lens : Seq[Int]
        let R = rotary_dim.value if present(rotary_dim) else D
        where H_kv > 0 and H % H_kv == 0
          and window_size_left >= -1 and window_size_right >= -1
          and not present(softcap) or softcap.value >= 0
          and (T == 'float8_e4m3fn') == present(q_scale)
          and present(out_dtype) if T == 'float8_e4m3fn' else not present(out_dtype) or out_dtype.value == T
          and not present(rotary_dim) or pos_encoding_mode == 'rope' and 0 < rotary_dim.value <= D and rotary_dim.value % 2 == 0
          and window_size_left == -1 and window_size_right == -1 or not present(sm_scale) and (not present(softcap) or softcap.value == 0)
        """

class MultiHeadAttentionBwdOp(_gradients.MultiHeadAttentionBwdOp):
    """Gradients of attention with a key and value head for each query head: `(dq, dk, dv)`.

    Those of `GroupedQueryAttentionBwdOp` with groups of one head.
    """

    def __init__(self, is_causal: bool = True, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            is_causal: `bool`, True
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, S, H, D]`
            k: `T[B, S, H, D]`
            v: `T[B, S, H, D]`
            o: `T[B, S, H, D]`
            do: `T[B, S, H, D]`
            lse: `float32[B, H, S]`

        Calls return:
            dq: `T[B, S, H, D]`
            dk: `T[B, S, H, D]`
            dv: `T[B, S, H, D]`
        """

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, o: Tensor, do: Tensor, lse: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Call the op.

        Args:
            q: `T[B, S, H, D]`
            k: `T[B, S, H, D]`
            v: `T[B, S, H, D]`
            o: `T[B, S, H, D]`
            do: `T[B, S, H, D]`
            lse: `float32[B, H, S]`

        Returns:
            dq: `T[B, S, H, D]`
            dk: `T[B, S, H, D]`
            dv: `T[B, S, H, D]`

        ∀ B, S, H, D : Dim, T ∈ {float16, bfloat16}
        """

class MultiHeadLatentAttentionDecodeWithKVCacheFwdOp(_latent.MultiHeadLatentAttentionDecodeWithKVCacheFwdOp):
    """MLA: one query of each request over a latent cache, with the up-projections absorbed.

    `o = softmax((q kᵀ + q_pe k_peᵀ) / sqrt(D + PE)) k`: the latent part is key and value at once,
    the rotated part `k_pe` key only. A request without keys gives zeros.

    Source: DeepSeek-V2, 2024.
    """

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the op.

        Args:
            target: what serves the instance; by default the device decides

        Calls take:
            q: `T[B, H, D]`
            q_pe: `T[B, H, PE]`
            k: `T[B, N_kv, H_kv, D]`
            k_pe: `T[B, N_kv, H_kv, PE]`

        Calls return:
            o: `T[B, H, D]`
        """

    def __call__(self, q: Tensor, q_pe: Tensor, k: Tensor, k_pe: Tensor) -> Tensor:
        """Call the op.

        Args:
            q: `T[B, H, D]`
            q_pe: `T[B, H, PE]`
            k: `T[B, N_kv, H_kv, D]`
            k_pe: `T[B, N_kv, H_kv, PE]`

        Returns:
            o: `T[B, H, D]`

        ∀ B, H, H_kv, N_kv, D, PE : Dim, T ∈ {float16, bfloat16, float32}
        where H_kv > 0 and H % H_kv == 0
        """
