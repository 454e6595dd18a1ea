"""TileLang program of dense attention: many queries of each request of a batch.

Batch and lengths are run-time values; heads, head size, dtype, scale and tile are compiled in.
Scores, softmax and sums are float32; weights are rounded to the dtype before they meet the values.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass
from math import e, log2

import tilelang.language as T

from tileops._programs.program import Program

_FLOOR = -1.0e30  # a finite maximum of nothing: differences of maxima stay numbers
_PANEL = 64  # columns of a swizzled tile that lie together, hence of one store
_ROWS = 64  # query rows of one warpgroup
_WARP, _WARPGROUP = 32, 128
_WARPS = _WARPGROUP // _WARP
_TURN_BARRIER = 8  # first of the named barriers by which warpgroups take turns
_STORE_BARRIER = 12  # first of those that they store behind
_PRODUCER_REGISTERS = 24
_CONSUMER_REGISTERS = {2: 240, 3: 160}
_L2_BYTES = 32 << 20  # of keys and values that blocks share at a time
_SETTINGS = {
    "tl.enable_fast_math": True,
    "tl.disable_buffer_init_check": True,
    "tl.disable_thread_storage_sync": True,
}


@dataclass(frozen=True)
class Heads:
    """What attends.

    Args:
        count: query heads, a multiple of `kv_count`.
        kv_count: key and value heads.
        size: channels of a head, 64 or 128.
        dtype: `"float16"` or `"bfloat16"`.
        is_causal: whether a query sees no later key, the last query standing at the last key.
        scale: factor of the scores, positive.
    """

    count: int
    kv_count: int
    size: int
    dtype: str
    is_causal: bool
    scale: float

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.count // self.kv_count


@dataclass(frozen=True)
class Tiling:
    """How attention is cut up.

    Args:
        rows: queries of a tile, 128 or 192: 64 for each warpgroup that multiplies.
        columns: keys of a tile.
        stages: buffers of the rings of keys and of values.
        queries: buffers of query tiles.
    """

    rows: int
    columns: int
    stages: int = 2
    queries: int = 2

    @property
    def warpgroups(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // _ROWS


def _walk(heads: Heads, blocks: int):
    """Makes the macro that finds the query tile and head at a place of a block's walk.

    Blocks walk to and fro, so that each gets the same work. Under a causal mask the longest tiles
    come first, within as many heads as have their keys and values in the L2 cache.
    """

    @T.macro
    def locate(turn, block, tiles, section, all_heads, bx: T.Ref, head: T.Ref):
        index = T.alloc_var("int32", init=0)
        index = turn * blocks + T.if_then_else(turn % 2 == 0, block, blocks - 1 - block)
        if heads.is_causal:
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


def _key_tiles(heads: Heads, tiling: Tiling):
    """Makes the macro that counts the key tiles which a query tile sees."""

    @T.macro
    def count(bx, queries, keys, n: T.Ref):
        n = T.ceildiv(keys, tiling.columns)
        if heads.is_causal:
            n = T.min(n, T.ceildiv((bx + 1) * tiling.rows + keys - queries, tiling.columns))

    return count


# What macros share travels in their arguments, which would take a line each.
# fmt: off
def _producer(heads: Heads, tiling: Tiling):
    """Makes the macro by which one warp copies a query tile, then keys and values, last first."""
    BM, BN, stages, group = tiling.rows, tiling.columns, tiling.stages, heads.group

    @T.macro
    def arrive(barriers, slot):
        if T.shuffle_elect(_WARP):
            T.barrier_arrive(barriers[slot])

    @T.macro
    def produce(
        Q, K, V, Qs, Ks, Vs, q_full, q_empty, k_full, k_empty, v_full, v_empty,
        step: T.Ref, tile: T.Ref, b, h, bx, n,
    ):
        T.barrier_wait(q_empty[tile % tiling.queries], (tile // tiling.queries + 1) % 2)
        T.tma_copy(
            Q[b, bx * BM : bx * BM + BM, h, :],
            Qs[tile % tiling.queries, :, :],
            barrier=q_full[tile % tiling.queries],
        )
        arrive(q_full, tile % tiling.queries)
        tile += 1
        for t in T.serial(n):
            T.barrier_wait(k_empty[step % stages], (step // stages + 1) % 2)
            T.tma_copy(
                K[b, (n - 1 - t) * BN : (n - t) * BN, h // group, :],
                Ks[step % stages, :, :],
                barrier=k_full[step % stages],
            )
            arrive(k_full, step % stages)
            T.barrier_wait(v_empty[step % stages], (step // stages + 1) % 2)
            T.tma_copy(
                V[b, (n - 1 - t) * BN : (n - t) * BN, h // group, :],
                Vs[step % stages, :, :],
                barrier=v_full[step % stages],
            )
            arrive(v_full, step % stages)
            step += 1

    return produce


def _score(heads: Heads, tiling: Tiling):
    """Makes the macros that hide keys and that issue the scores of a tile in a warpgroup's turn."""
    BM, BN = tiling.rows, tiling.columns

    @T.macro
    def hide(S, bx, nb, queries, keys):
        for i, j in T.Parallel(BM, BN):
            if heads.is_causal:
                S[i, j] = T.if_then_else(
                    nb * BN + j <= bx * BM + i + keys - queries, S[i, j], -T.infinity("float32")
                )
            else:
                S[i, j] = T.if_then_else(nb * BN + j < keys, S[i, j], -T.infinity("float32"))

    @T.macro
    def take_turn(thread):
        T.sync_threads(_TURN_BARRIER + thread // _WARPGROUP, 2 * _WARPGROUP)

    @T.macro
    def pass_turn(thread):
        T.named_barrier_arrive(
            _TURN_BARRIER + (thread // _WARPGROUP + 1) % tiling.warpgroups, 2 * _WARPGROUP
        )

    return hide, take_turn, pass_turn


@T.macro
def _release(barriers, slot, thread):
    """Hands a buffer back, once for each warp."""
    if thread % _WARP == 0:
        T.barrier_arrive(barriers[slot])


def _consumer(heads: Heads, tiling: Tiling):
    """Makes the macro by which the warpgroups attend to the keys of a query tile.

    Scores of the next keys are issued before the values of the current ones, and their softmax is
    formed while the latter are multiplied. Only the last tiles of keys are masked.
    """
    BM, BN, D, stages = tiling.rows, tiling.columns, heads.size, tiling.stages
    scale = heads.scale * log2(e)
    hide, take_turn, pass_turn = _score(heads, tiling)
    layout = {"policy": T.GemmWarpPolicy.FullRow}

    @T.macro
    def advance(
        Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part, shrink,
        step: T.Ref, slot, thread, bx, nb, queries, keys, masked,
    ):
        T.barrier_wait(k_full[(step + 1) % stages], ((step + 1) // stages) % 2)
        take_turn(thread)
        T.wgmma_gemm(
            Qs[slot, :, :], Ks[(step + 1) % stages, :, :], S,
            transpose_B=True, clear_accum=True, **layout,
        )
        T.barrier_wait(v_full[step % stages], (step // stages) % 2)
        T.wgmma_gemm(P, Vs[step % stages, :, :], A, **layout)
        pass_turn(thread)
        T.wait_wgmma(1)
        T.warpgroup_fence_operand(S, num_regs=BN // 2)
        _release(k_empty, (step + 1) % stages, thread)
        if masked:
            hide(S, bx, nb, queries, keys)
        T.copy(m, last)
        T.reduce_max(S, m, dim=1)
        for i in T.Parallel(BM):
            m[i] = T.max(m[i] * scale, last[i])
        for i in T.Parallel(BM):
            shrink[i] = T.exp2(last[i] - m[i])
        for i, j in T.Parallel(BM, BN):
            S[i, j] = T.exp2(S[i, j] * scale - m[i])
        T.reduce_sum(S, part, dim=1)
        for i in T.Parallel(BM):
            sums[i] = sums[i] * shrink[i] + part[i]
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=D // 2)
        _release(v_empty, step % stages, thread)
        T.copy(S, P)
        for i, j in T.Parallel(BM, D):
            A[i, j] *= shrink[i]
        step += 1

    @T.macro
    def begin(Qs, Ks, k_full, k_empty, S, P, m, sums, step, slot, thread, bx, nb, queries, keys):
        T.barrier_wait(k_full[step % stages], (step // stages) % 2)
        take_turn(thread)
        T.wgmma_gemm(
            Qs[slot, :, :], Ks[step % stages, :, :], S,
            transpose_B=True, clear_accum=True, **layout,
        )
        pass_turn(thread)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(S, num_regs=BN // 2)
        _release(k_empty, step % stages, thread)
        hide(S, bx, nb, queries, keys)
        T.reduce_max(S, m, dim=1)
        for i in T.Parallel(BM):
            m[i] = T.max(m[i] * scale, _FLOOR)
        for i, j in T.Parallel(BM, BN):
            S[i, j] = T.exp2(S[i, j] * scale - m[i])
        T.reduce_sum(S, sums, dim=1)
        T.copy(S, P)

    @T.macro
    def attend(
        Qs, Ks, Vs, q_full, q_empty, k_full, k_empty, v_full, v_empty,
        S, P, A, m, last, sums, part, shrink,
        step: T.Ref, tile: T.Ref, thread, bx, n, queries, keys,
    ):
        slot = T.alloc_var("int32", init=0)
        clear = T.alloc_var("int32", init=0)  # key tiles that all queries of the tile see whole
        slot = tile % tiling.queries
        T.fill(A, 0)
        T.barrier_wait(q_full[slot], (tile // tiling.queries) % 2)
        tile += 1
        begin(Qs, Ks, k_full, k_empty, S, P, m, sums, step, slot, thread, bx, n - 1, queries, keys)
        clear = n - 1
        if heads.is_causal:
            clear = T.min(T.truncdiv(bx * BM + keys - queries + 1, BN), clear)
            for t in T.serial(n - 1 - clear):
                advance(
                    Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                    shrink, step, slot, thread, bx, n - 2 - t, queries, keys, True,
                )
        for t in T.serial(clear):
            advance(
                Qs, Ks, Vs, k_full, k_empty, v_full, v_empty, S, P, A, m, last, sums, part,
                shrink, step, slot, thread, bx, clear - 1 - t, queries, keys, False,
            )
        _release(q_empty, slot, thread)
        T.barrier_wait(v_full[step % stages], (step // stages) % 2)
        T.wgmma_gemm(P, Vs[step % stages, :, :], A, **layout)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(A, num_regs=D // 2)
        _release(v_empty, step % stages, thread)
        step += 1
        for i in T.Parallel(BM):
            sums[i] = T.if_then_else(sums[i] == 0.0, 0.0, 1.0 / sums[i])
        for i, j in T.Parallel(BM, D):
            A[i, j] = A[i, j] * sums[i]

    return attend


def _writer(heads: Heads):
    """Makes the macro by which each warpgroup stores its rows, not waiting for the others."""

    @T.macro
    def write(A, Os, Out, thread, b, h, row):
        part = thread // _WARPGROUP
        if T.shuffle_elect(_WARPGROUP):
            T.tma_store_wait(0)
        T.sync_threads(_STORE_BARRIER + part, _WARPGROUP)
        T.copy(A, Os)
        T.fence_proxy_async()
        T.sync_threads(_STORE_BARRIER + part, _WARPGROUP)
        for panel in tuple(range(0, heads.size, _PANEL)):
            T.tma_copy(
                Os[part * _ROWS : part * _ROWS + _ROWS, panel : panel + _PANEL],
                Out[b, row + part * _ROWS : row + part * _ROWS + _ROWS, h, panel : panel + _PANEL],
                leader_scope_threads=_WARPGROUP,
            )

    return write


def build_attention_pipelined(heads: Heads, *, tiling: Tiling, blocks: int) -> Program:
    """Attention of many queries on Hopper: a copying warp feeds warpgroups that take turns.

    Tensors: `Q [B, S_q, H, D]`, `K` and `V [B, S_kv, H_kv, D]`, `Out [B, S_q, H, D]`; contiguous,
    16-byte aligned, none empty; `S_q` is at most `S_kv` where it is causal.

    Args:
        heads: what attends.
        tiling: how it is cut up.
        blocks: largest number of blocks, one for each multiprocessor.
    """
    BM, BN, D, H, HK = tiling.rows, tiling.columns, heads.size, heads.count, heads.kv_count
    stages, dtype = tiling.stages, heads.dtype
    consumers = tiling.warpgroups * _WARPGROUP
    releases = _WARPS * tiling.warpgroups
    locate = _walk(heads, blocks)
    count_keys = _key_tiles(heads, tiling)
    produce = _producer(heads, tiling)
    attend = _consumer(heads, tiling)
    write = _writer(heads)
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
        with T.Kernel(T.min(total, blocks), threads=consumers + _WARPGROUP) as block:
            Qs = T.alloc_shared((tiling.queries, BM, D), dtype)
            Ks = T.alloc_shared((stages, BN, D), dtype)
            Vs = T.alloc_shared((stages, BN, D), dtype)
            Os = T.alloc_shared((BM, D), dtype)
            S = T.alloc_fragment((BM, BN), "float32")
            P = T.alloc_fragment((BM, BN), dtype)
            A = T.alloc_fragment((BM, D), "float32")
            m = T.alloc_fragment((BM,), "float32")
            last = T.alloc_fragment((BM,), "float32")
            sums = T.alloc_fragment((BM,), "float32")
            part = T.alloc_fragment((BM,), "float32")
            shrink = T.alloc_fragment((BM,), "float32")
            q_full = T.alloc_barrier([1] * tiling.queries)
            q_empty = T.alloc_barrier([releases] * tiling.queries)
            k_full = T.alloc_barrier([1] * stages)
            k_empty = T.alloc_barrier([releases] * stages)
            v_full = T.alloc_barrier([1] * stages)
            v_empty = T.alloc_barrier([releases] * stages)
            thread = T.get_thread_binding()
            section = T.alloc_var("int32", init=0)
            bx = T.alloc_var("int32", init=0)
            head = T.alloc_var("int32", init=0)
            n = T.alloc_var("int32", init=0)
            turns = T.alloc_var("int32", init=0)
            step = T.alloc_var("int32", init=0)
            tile = T.alloc_var("int32", init=0)
            section = T.min(B * H, T.max(1, T.truncdiv(_L2_BYTES // (4 * D), SK)) * heads.group)
            turns = T.truncdiv(total, blocks)
            turns = turns + T.if_then_else(
                T.if_then_else(turns % 2 == 0, block, blocks - 1 - block)
                < T.truncmod(total, blocks),
                1,
                0,
            )
            if thread >= consumers:
                T.dec_max_nreg(_PRODUCER_REGISTERS)
                if thread < consumers + _WARP:
                    for turn in T.serial(turns):
                        locate(turn, block, tiles, section, B * H, bx, head)
                        count_keys(bx, SQ, SK, n)
                        produce(
                            Q, K, V, Qs, Ks, Vs, q_full, q_empty, k_full, k_empty, v_full,
                            v_empty, step, tile, head // H, head % H, bx, n,
                        )
            else:
                T.inc_max_nreg(_CONSUMER_REGISTERS[tiling.warpgroups])
                if thread >= consumers - _WARPGROUP:
                    T.named_barrier_arrive(_TURN_BARRIER, 2 * _WARPGROUP)
                for turn in T.serial(turns):
                    locate(turn, block, tiles, section, B * H, bx, head)
                    count_keys(bx, SQ, SK, n)
                    attend(
                        Qs, Ks, Vs, q_full, q_empty, k_full, k_empty, v_full, v_empty, S, P, A,
                        m, last, sums, part, shrink, step, tile, thread, bx, n, SQ, SK,
                    )
                    write(A, Os, Out, thread, head // H, head % H, bx * BM)
                if T.shuffle_elect(_WARPGROUP):
                    T.tma_store_wait(0)

    return Program(attention, _SETTINGS)
