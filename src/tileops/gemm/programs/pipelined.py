"""The program of large products, on Hopper's tensor cores and fed by the copy engine.

All extents are run-time values; dtype, layouts and tile are compiled in. Products accumulate in
float32 and are rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math

import tilelang.language as T

from tileops._programs.program import Program
from tileops.gemm.programs.ring import (
    CONSUMER_REGISTERS,
    UNIT,
    WARPGROUP,
    WARPS,
    Tiling,
    consumer,
    producer,
)
from tileops.gemm.programs.tiles import panel, walk, writer


def build_gemm_pipelined(
    dtype: str,
    *,
    trans_a: bool,
    trans_b: bool,
    tiling: Tiling,
    blocks: int,
    batched: bool = False,
) -> Program:
    """`D = op(A) op(B)` on Hopper: a copying warp feeds warpgroups that multiply, tile after tile.

    Tensors: `A [M, K]`, or `[K, M]` when `trans_a`; `B [K, N]`, or `[N, K]` when `trans_b`;
    `D [M, N]`; contiguous, 16-byte aligned, the inner extent of each a multiple of 8, none 0. All
    three have one more axis before these when `batched`, whose items are multiplied in pairs.

    A grid of at most `blocks` blocks walks the tiles; results leave through shared memory in
    stores that overlap the next tile.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        trans_a: whether `A` is stored transposed.
        trans_b: whether `B` is stored transposed.
        tiling: how the product is cut up.
        blocks: largest number of blocks, one for each multiprocessor.
        batched: whether there are several products.
    """
    BM, BN, BK = tiling.rows, tiling.columns, tiling.depth
    stages, cluster = tiling.stages, tiling.cluster
    consumers = tiling.warpgroups * WARPGROUP
    walkers = blocks // cluster
    visit, feed = walk(tiling, blocks, producer(tiling, trans_a, trans_b), batched=batched)
    multiply = consumer(tiling, trans_a, trans_b)
    write = writer(tiling)
    alloc_empty = T.alloc_cluster_barrier if cluster > 1 else T.alloc_barrier
    M = T.dynamic("MU") * UNIT if trans_a else T.dynamic("M")
    K = T.dynamic("KU") * UNIT if trans_b or not trans_a else T.dynamic("K")
    N = T.dynamic("NU") * UNIT
    batch = (T.dynamic("batch"),) if batched else ()

    @T.prim_func
    def gemm(
        A: T.Tensor((*batch, K, M) if trans_a else (*batch, M, K), dtype),
        B: T.Tensor((*batch, N, K) if trans_b else (*batch, K, N), dtype),
        D: T.Tensor((*batch, M, N), dtype),
    ):
        rows = T.ceildiv(M, BM * cluster)  # of clusters, where blocks share copies
        columns = T.ceildiv(N, BN)
        tiles = math.prod(batch, start=rows * columns)
        with T.Kernel(
            T.min(tiles, walkers) * cluster,
            threads=consumers + WARPGROUP,
            cluster_dims=cluster,
        ) as block:
            As = T.alloc_shared((stages, BK, BM) if trans_a else (stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK) if trans_b else (stages, BK, BN), dtype)
            Ds = T.alloc_shared((2, BM, panel(tiling)), dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = alloc_empty([WARPS * tiling.warpgroups * cluster] * stages)
            thread = T.get_thread_binding()
            slot = T.alloc_var("int32", init=0)
            phase = T.alloc_var("int32", init=0)
            item = T.alloc_var("int32", init=0)
            bm = T.alloc_var("int32", init=0)
            bn = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            turns = T.alloc_var("int32", init=0)
            steps = T.ceildiv(K, BK)
            turns = T.ceildiv(tiles - block // cluster, walkers)
            if thread >= consumers:
                feed(
                    A, B, As, Bs, full, empty, turns, block, rows, columns, steps, thread,
                    item, bm, bn, slot, phase,
                )  # fmt: skip
            else:
                T.inc_max_nreg(CONSUMER_REGISTERS[tiling.warpgroups])
                for turn in T.serial(turns):
                    visit(turn, block, rows, columns, item, bm, bn)
                    multiply(As, Bs, acc, full, empty, steps, thread, slot, phase)
                    write(acc, Ds, D, item, bm, bn, thread)
                if T.shuffle_elect(WARPGROUP):
                    T.tma_store_wait(0)
            if cluster > 1:
                T.cluster_sync()  # the others still write to this block's memory until here

    return Program(gemm, {"tl.disable_thread_storage_sync": True})
