"""The program of large products, on Hopper's tensor cores and fed by the copy engine.

All extents are run-time values; dtype, layouts and tile are compiled in. Products accumulate in
float32 and are rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import Program
from tileops.gemm.programs.ring import (
    CONSUMER_REGISTERS,
    PANEL,
    PRODUCER_REGISTERS,
    ROWS,
    UNIT,
    WARP,
    WARPGROUP,
    WARPS,
    Tiling,
    consumer,
    producer,
)

_STORE_BARRIER = 8  # first of the named barriers that warpgroups use for themselves


@T.macro
def _locate(index, rows, columns, group, bm: T.Ref, bn: T.Ref):
    """The tile at a place of the walk: groups of tile rows, each walked column by column."""
    first = T.alloc_var("int32")
    height = T.alloc_var("int32")
    first = T.truncdiv(index, group * columns) * group
    height = T.min(group, rows - first)
    bm = index - first * columns
    bn = T.truncdiv(bm, height)
    bm = first + bm - bn * height


def _writer(tiling: Tiling):
    """Makes the macro by which each warpgroup stores its rows of a tile, a panel at a time.

    Two buffers of a panel alternate, so that a store is read while the next panel is filled, and
    the last ones while the next tile is multiplied.
    """
    panels = tiling.columns // PANEL

    @T.macro
    def write(acc, Ds, D, bm, bn, thread):
        part = thread // WARPGROUP
        top = bm * tiling.rows + part * ROWS
        for p in tuple(range(panels)):
            # With an odd number of panels, a tile begins with the buffer that the last one used.
            if T.shuffle_elect(WARPGROUP):
                T.tma_store_wait(0 if p == 0 and panels % 2 else 1)
            T.sync_threads(_STORE_BARRIER + part, WARPGROUP)
            for i, j in T.Parallel(tiling.rows, PANEL):
                Ds[p % 2, i, j] = acc[i, p * PANEL + j]
            T.fence_proxy_async()
            T.sync_threads(_STORE_BARRIER + part, WARPGROUP)
            left = bn * tiling.columns + p * PANEL
            T.tma_copy(
                Ds[p % 2, part * ROWS : (part + 1) * ROWS, :],
                D[top : top + ROWS, left : left + PANEL],
                leader_scope_threads=WARPGROUP,
            )

    return write


def build_gemm_pipelined(
    dtype: str, *, trans_a: bool, trans_b: bool, tiling: Tiling, blocks: int
) -> Program:
    """`D = op(A) op(B)` on Hopper: a copying warp feeds warpgroups that multiply, tile after tile.

    Tensors: `A [M, K]`, or `[K, M]` when `trans_a`; `B [K, N]`, or `[N, K]` when `trans_b`;
    `D [M, N]`; contiguous, 16-byte aligned, the inner extent of each a multiple of 8, none 0.

    A grid of at most `blocks` blocks walks the tiles; results leave through shared memory in
    stores that overlap the next tile.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        trans_a: whether `A` is stored transposed.
        trans_b: whether `B` is stored transposed.
        tiling: how the product is cut up.
        blocks: largest number of blocks, one for each multiprocessor.
    """
    BM, BN, BK = tiling.rows, tiling.columns, tiling.depth
    stages, cluster = tiling.stages, tiling.cluster
    consumers = tiling.warpgroups * WARPGROUP
    walkers = blocks // cluster
    produce = producer(tiling, trans_a, trans_b)
    multiply = consumer(tiling, trans_a, trans_b)
    write = _writer(tiling)
    alloc_empty = T.alloc_cluster_barrier if cluster > 1 else T.alloc_barrier
    M = T.dynamic("MU") * UNIT if trans_a else T.dynamic("M")
    K = T.dynamic("KU") * UNIT if trans_b or not trans_a else T.dynamic("K")
    N = T.dynamic("NU") * UNIT

    @T.prim_func
    def gemm(
        A: T.Tensor((K, M) if trans_a else (M, K), dtype),
        B: T.Tensor((N, K) if trans_b else (K, N), dtype),
        D: T.Tensor((M, N), dtype),
    ):
        rows = T.ceildiv(M, BM * cluster)  # of clusters, where blocks share copies
        columns = T.ceildiv(N, BN)
        with T.Kernel(
            T.min(rows * columns, walkers) * cluster,
            threads=consumers + WARPGROUP,
            cluster_dims=cluster,
        ) as block:
            As = T.alloc_shared((stages, BK, BM) if trans_a else (stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK) if trans_b else (stages, BK, BN), dtype)
            Ds = T.alloc_shared((2, BM, PANEL), dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = alloc_empty([WARPS * tiling.warpgroups * cluster] * stages)
            thread = T.get_thread_binding()
            slot = T.alloc_var("int32", init=0)
            phase = T.alloc_var("int32", init=0)
            bm = T.alloc_var("int32", init=0)
            bn = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            turns = T.alloc_var("int32", init=0)
            walker = block // cluster
            steps = T.ceildiv(K, BK)
            turns = T.ceildiv(rows * columns - walker, walkers)
            if thread >= consumers:
                T.dec_max_nreg(PRODUCER_REGISTERS)
                if thread < consumers + WARP:
                    for turn in T.serial(turns):
                        _locate(turn * walkers + walker, rows, columns, tiling.group, bm, bn)
                        bm = bm * cluster + block % cluster
                        produce(A, B, As, Bs, full, empty, 0, steps, bm * BM, bn * BN, slot, phase)
            else:
                T.inc_max_nreg(CONSUMER_REGISTERS[tiling.warpgroups])
                for turn in T.serial(turns):
                    _locate(turn * walkers + walker, rows, columns, tiling.group, bm, bn)
                    bm = bm * cluster + block % cluster
                    multiply(As, Bs, acc, full, empty, steps, thread, slot, phase)
                    write(acc, Ds, D, bm, bn, thread)
                if T.shuffle_elect(WARPGROUP):
                    T.tma_store_wait(0)
            if cluster > 1:
                T.cluster_sync()  # the others still write to this block's memory until here

    return Program(gemm, {"tl.disable_thread_storage_sync": True})
