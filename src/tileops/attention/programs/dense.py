"""TileLang program of dense attention: many queries of each request of a batch.

Batch and lengths are run-time values; heads, mask and tile are compiled in.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import Program
from tileops.attention.programs.prefill import SETTINGS, Mask, Source, Tiling
from tileops.attention.programs.prefill_block import block_of
from tileops.attention.programs.softmax import WARPGROUP, Heads

_L2_BYTES = 32 << 20  # of keys and values that blocks share at a time


def _walk(mask: Mask, blocks: int):
    """Makes the macro that finds the query tile and head at a place of a block's walk.

    Blocks walk to and fro, so that each gets the same work. Under a causal mask the longest tiles
    come first, within as many heads as have their keys and values in the L2 cache.
    """

    @T.macro
    def locate(turn, block, tiles, section, all_heads, bx: T.Ref, head: T.Ref):
        index = T.alloc_var("int32", init=0)
        index = turn * blocks + T.if_then_else(turn % 2 == 0, block, blocks - 1 - block)
        if mask.right >= 0:
            part = T.alloc_var("int32", init=0)
            rest = T.alloc_var("int32", init=0)
            width = T.alloc_var("int32", init=0)
            part = T.truncdiv(index, section * tiles)
            rest = index - part * (section * tiles)
            width = T.min(section, all_heads - part * section)
            bx = T.truncdiv(rest, width)
            head = part * section + rest - bx * width
            bx = tiles - 1 - bx
        else:
            head = T.truncdiv(index, tiles)
            bx = index - head * tiles

    return locate


def build_attention_pipelined(heads: Heads, *, mask: Mask, tiling: Tiling, blocks: int) -> Program:
    """Attention of many queries of each request of a batch.

    Tensors: `Q [B, S_q, H, D]`, `K` and `V [B, S_kv, H_kv, D]`, `Out [B, S_q, H, D]`; contiguous,
    16-byte aligned, none empty; `S_q` is at most `S_kv` under a causal mask.

    Args:
        heads: what attends.
        mask: what is seen.
        tiling: how it is cut up.
        blocks: largest number of blocks, one for each multiprocessor.
    """
    BM, D, H, HK, dtype = tiling.rows, heads.size, heads.count, heads.kv_count, heads.dtype
    run = block_of(heads, tiling, mask, Source(), _walk(mask, blocks))
    B, SQ, SK = T.dynamic("B"), T.dynamic("SQ"), T.dynamic("SK")

    @T.prim_func
    def attention(
        Q: T.Tensor((B, SQ, H, D), dtype),
        K: T.Tensor((B, SK, HK, D), dtype),
        V: T.Tensor((B, SK, HK, D), dtype),
        Out: T.Tensor((B, SQ, H, D), dtype),
    ):
        tiles = T.ceildiv(SQ, BM)
        total = tiles * B * H
        with T.Kernel(T.min(total, blocks), threads=tiling.threads + WARPGROUP) as block:
            section = T.alloc_var("int32", init=0)
            bx = T.alloc_var("int32", init=0)
            head = T.alloc_var("int32", init=0)
            turns = T.alloc_var("int32", init=0)
            section = T.min(B * H, T.max(1, T.truncdiv(_L2_BYTES // (4 * D), SK)) * heads.group)
            turns = T.truncdiv(total, blocks)
            turns = turns + T.if_then_else(
                T.if_then_else(turns % 2 == 0, block, blocks - 1 - block)
                < T.truncmod(total, blocks),
                1,
                0,
            )
            run(
                Q, K, V, None, None, Out, turns, block, tiles, section, B * H, 0, 0, SQ, SK, bx,
                head,
            )  # fmt: skip

    return Program(attention, SETTINGS)
