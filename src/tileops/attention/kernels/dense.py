"""Attention of a batch of equally long requests.

Not for TileLang programs, which `programs/` holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tileops._core.dispatch.alignment import aligned
from tileops.attention.kernels.device import HOPPER, operand_fault
from tileops.attention.kernels.softmax import SoftmaxAttention, rotated, visible
from tileops.kernels import CallSpec, Kernel, KernelInterface, PortableKernel


@dataclass(frozen=True)
class DenseAttentionCall(CallSpec):
    """Attention of a batch.

    Args:
        heads: query heads, a multiple of `kv_heads`.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        is_decode: whether there is one query only, at the last position.
        is_causal: whether a query sees no later key.
        window_left: keys before its position that a query sees; -1 for all.
        window_right: likewise after its position.
        sm_scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
        rotary_dim: leading channels that are rotated; 0 for none.
        rope_layout: which channels form a rotated pair.
        dtype: element type of q, k and v; float8_e4m3fn comes with scales.
        out_dtype: element type of the result and of the rotary tables.
    """

    heads: int
    kv_heads: int
    head_dim: int
    is_decode: bool
    is_causal: bool
    window_left: int
    window_right: int
    sm_scale: float
    softcap: float
    rotary_dim: int
    rope_layout: Literal["neox", "interleaved"]
    dtype: torch.dtype
    out_dtype: torch.dtype


class DenseAttentionFwdInterface(KernelInterface):
    """Softmax attention of a batch."""

    request = DenseAttentionCall

    @abstractmethod
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend.

        All tensors are on `call.device`, of any strides, and only read. Query `i` stands at
        position `c = i + S_kv - S_q`, which is not negative where it is rotated or `is_causal`, and
        sees the keys `j` with `j <= c` where `is_causal`, `j >= c - window_left` and
        `j <= c + window_right` where these are not negative. Scores are `sm_scale * (q · k)`, then
        `softcap * tanh(scores / softcap)` where `softcap` is positive, then masked; a row that
        sees no key gives zeros.

        Args:
            q: `[B, S_q, heads, head_dim]` in `call.dtype`; `S_q` is 1 where `call.is_decode`.
            k: `[B, S_kv, kv_heads, head_dim]` in `call.dtype`.
            v: `[B, S_kv, kv_heads, head_dim]` in `call.dtype`.
            q_scale: `[B, kv_heads]` float32, the factor of each request's query codes, shared by a
                group of heads; None unless `call.dtype` is float8.
            k_scale: `[B, kv_heads]` float32, of the key codes; None unless float8.
            v_scale: `[B, kv_heads]` float32, of the value codes; None unless float8.
            rope_cos: `[S_kv or more, rotary_dim // 2]` in `call.out_dtype`, indexed by position;
                None unless `call.rotary_dim`.
            rope_sin: likewise.

        Returns:
            A new contiguous `[B, S_q, heads, head_dim]` in `call.out_dtype`. Scores, softmax and
            sums are float32. `B`, `S_q` and `S_kv` vary between calls.
        """


class DenseAttentionPortableKernel(PortableKernel[DenseAttentionCall], DenseAttentionFwdInterface):
    """Attention by torch, under a mask where one binds."""

    def __init__(self, call: DenseAttentionCall) -> None:
        super().__init__(call)
        self._window = (call.window_left, 0 if call.is_causal else call.window_right)
        self._softmax = SoftmaxAttention(call.sm_scale, call.softcap)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend."""
        if q_scale is not None and k_scale is not None and v_scale is not None:
            q = dequantised(q, q_scale)
            k = dequantised(k, k_scale)
            v = dequantised(v, v_scale)
        rows, columns = q.shape[1], k.shape[1]
        if rope_cos is not None and rope_sin is not None:
            first = columns - rows
            q = self._rotated(q, rope_cos[first:columns], rope_sin[first:columns])
            k = self._rotated(k, rope_cos[:columns], rope_sin[:columns])
        left, right = self._window
        left = left if left < columns - 1 else -1
        right = right if right < rows - 1 else -1
        if left < 0 and right < 0:
            out = self._softmax.attend(q, k, v)
        elif (left, right) == (-1, 0) and rows == columns:
            out = self._softmax.attend_causally(q, k, v)
        else:
            c = torch.arange(columns - rows, columns, device=q.device)
            mask = visible(c, torch.arange(columns, device=q.device), left, right)
            out = self._softmax.attend(q, k, v, mask[None])
        return out.to(self.call.out_dtype).contiguous()

    def _rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """`x` `[B, S, H, D]` turned by tables `[S, R // 2]`."""
        interleaved = self.call.rope_layout == "interleaved"
        return rotated(x, cos.float()[:, None], sin.float()[:, None], interleaved=interleaved)


def dequantised(codes: Tensor, scale: Tensor) -> Tensor:
    """float8 codes `[B, S, H, D]` times `[B, H_kv]`, the factor of their group, in float32."""
    per_head = scale.repeat_interleave(codes.shape[2] // scale.shape[1], dim=1)
    return codes.float() * per_head[:, None, :, None]


class DenseAttentionPipelinedKernel(Kernel, DenseAttentionFwdInterface):
    """Attention of many queries on Hopper's tensor cores, fed by the copy engine; 16-bit operands.

    Args:
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: channels of a head.
        is_causal: whether a query sees no later key.
        sm_scale: factor of the scores.
        dtype: element type.
        blocks: largest number of blocks, one for each multiprocessor.
    """

    supported_archs = frozenset({HOPPER})

    ROWS: Mapping[int, int] = {64: 192, 128: 128}
    """Queries of a tile, by the head sizes that the class serves."""

    def __init__(
        self,
        heads: int,
        kv_heads: int,
        head_dim: int,
        is_causal: bool,
        sm_scale: float,
        dtype: torch.dtype,
        blocks: int,
    ) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.is_causal, self.sm_scale = is_causal, sm_scale
        self.dtype, self.blocks = dtype, blocks

    @classmethod
    def refusal(cls, call: DenseAttentionCall) -> str | None:
        """Refuses other elements and head sizes, single queries, and changed or hidden scores."""
        if call.is_decode:
            return "attends with many queries of a request, not with one"
        if call.window_left >= 0 or (call.window_right >= 0 and not call.is_causal):
            return (
                "applies no window, here window_left="
                f"{call.window_left} and window_right={call.window_right}"
            )
        if call.softcap:
            return f"does not bound scores, here softcap={call.softcap}"
        if call.rotary_dim:
            return f"does not rotate, here rotary_dim={call.rotary_dim}"
        fault = operand_fault(call.dtype, call.head_dim, cls.ROWS, call.sm_scale)
        return fault or super().refusal(call)

    @classmethod
    def entry_for(
        cls, call: DenseAttentionCall
    ) -> tuple[Hashable, Callable[[], DenseAttentionPipelinedKernel]]:
        """One build for each kind of heads; neither batch nor length is part of it."""
        constants = (
            call.heads, call.kv_heads, call.head_dim, call.is_causal, call.sm_scale, call.dtype,
            call.sm_count,
        )  # fmt: skip
        return constants, lambda: cls(*constants)

    @property
    def default_config(self) -> Mapping[str, Any]:
        """Keys of a tile, and buffers of query tiles."""
        return self.autotune_configs[0]

    @property
    def autotune_configs(self) -> Sequence[Mapping[str, Any]]:
        """Wider tiles leave room for one query tile only."""
        narrow = {"columns": 128, "queries": 2}
        return [narrow] if self.head_dim == 64 else [{"columns": 160, "queries": 1}, narrow]

    def make_program(self, config: Mapping[str, Any]) -> Callable[..., None]:
        """Compile the program."""
        from tileops.attention.programs.dense import Heads, Tiling, build_attention_pipelined

        heads = Heads(
            self.heads,
            self.kv_heads,
            self.head_dim,
            str(self.dtype).removeprefix("torch."),
            self.is_causal,
            self.sm_scale,
        )
        tiling = Tiling(self.ROWS[self.head_dim], **config)
        return build_attention_pipelined(heads, tiling=tiling, blocks=self.blocks).compile(HOPPER)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        q_scale: Tensor | None,
        k_scale: Tensor | None,
        v_scale: Tensor | None,
        rope_cos: Tensor | None,
        rope_sin: Tensor | None,
    ) -> Tensor:
        """Attend."""
        if k.shape[1] == 0:
            return torch.zeros(q.shape, dtype=self.dtype, device=q.device)
        out = torch.empty(q.shape, dtype=self.dtype, device=q.device)
        self.program()(*(aligned(part.contiguous()) for part in (q, k, v)), out)
        return out
