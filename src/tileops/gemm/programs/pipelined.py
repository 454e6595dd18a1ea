"""The program of large products, on Hopper's tensor cores and fed by the copy engine.

All extents are run-time values; dtype, layouts and tile are compiled in. Products accumulate in
float32 and are rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

from dataclasses import dataclass

import tilelang.language as T

from tileops._programs.program import Program

_UNIT = 8  # 16-bit elements of 16 bytes: what the copy engine asks of every row pitch
_PANEL = 64  # columns of a swizzled tile that lie together, hence of one store
_ROWS = 64  # rows of a tile that one warpgroup multiplies
_WARP, _WARPGROUP = 32, 128
_WARPS = _WARPGROUP // _WARP
_STORE_BARRIER = 8  # first of the named barriers that warpgroups use for themselves
_PRODUCER_REGISTERS = 40
_CONSUMER_REGISTERS = {1: 240, 2: 232, 3: 160}


@dataclass(frozen=True)
class Tiling:
    """How a product is cut up.

    Args:
        rows: rows of a tile, 64 for each warpgroup that multiplies.
        columns: columns of a tile, a multiple of 64.
        depth: depth of one step along K, a multiple of 64.
        stages: buffers of the ring between copying and multiplying.
        group: tile rows that neighbouring blocks share, so that operands meet in the L2 cache.
        cluster: blocks, one above the other, that share each copy of their part of B.
    """

    rows: int
    columns: int
    depth: int
    stages: int
    group: int = 8
    cluster: int = 1

    @property
    def warpgroups(self) -> int:
        """Warpgroups that multiply."""
        return self.rows // _ROWS


@T.macro
def _advance(slot: T.Ref, phase: T.Ref, stages):
    """Goes to the next buffer of the ring; the phase changes with every round."""
    slot += 1
    if slot == stages:
        slot = 0
        phase = 1 - phase


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


def _step_of(X, k, depth, i, extent, k_first):
    """What one step of one tile reads of an operand."""
    if k_first:
        return X[k : k + depth, i : i + extent]
    return X[i : i + extent, k : k + depth]


def _producer(tiling: Tiling, trans_a: bool, trans_b: bool):
    """Makes the macro by which one warp copies the steps of a tile into the ring."""
    shared_copy = {"cluster_mask": (1 << tiling.cluster) - 1} if tiling.cluster > 1 else {}

    @T.macro
    def produce(A, B, As, Bs, full, empty, steps, bm, bn, slot: T.Ref, phase: T.Ref):
        for k in T.serial(steps):
            T.barrier_wait(empty[slot], 1 - phase)
            T.tma_copy(
                _step_of(A, k * tiling.depth, tiling.depth, bm * tiling.rows, tiling.rows, trans_a),
                As[slot, :, :],
                barrier=full[slot],
            )
            T.tma_copy(
                _step_of(
                    B, k * tiling.depth, tiling.depth, bn * tiling.columns, tiling.columns,
                    not trans_b,
                ),
                Bs[slot, :, :],
                barrier=full[slot],
                **shared_copy,
            )  # fmt: skip
            if T.shuffle_elect(_WARP):
                T.barrier_arrive(full[slot])
            _advance(slot, phase, tiling.stages)

    return produce


def _consumer(tiling: Tiling, trans_a: bool, trans_b: bool):
    """Makes the macro by which the warpgroups multiply the steps of a tile.

    One step stays in flight; the buffer of the one before is handed back as soon as it is done.
    """
    layout = {
        "transpose_A": trans_a,
        "transpose_B": trans_b,
        "policy": T.GemmWarpPolicy.FullRow,
    }

    @T.macro
    def release(empty, slot, thread):
        if thread % _WARP == 0:
            if tiling.cluster > 1:
                for rank in tuple(range(tiling.cluster)):
                    T.mbarrier_arrive(empty[slot], rank)
            else:
                T.barrier_arrive(empty[slot])

    @T.macro
    def multiply(As, Bs, acc, full, empty, steps, thread, slot: T.Ref, phase: T.Ref):
        last = T.alloc_var("int32")
        T.barrier_wait(full[slot], phase)
        T.wgmma_gemm(As[slot, :, :], Bs[slot, :, :], acc, clear_accum=True, **layout)
        last = slot
        _advance(slot, phase, tiling.stages)
        for _ in T.serial(steps - 1):
            T.barrier_wait(full[slot], phase)
            T.wgmma_gemm(As[slot, :, :], Bs[slot, :, :], acc, **layout)
            T.wait_wgmma(1)
            release(empty, last, thread)
            last = slot
            _advance(slot, phase, tiling.stages)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(acc, num_regs=tiling.columns // 2)
        release(empty, last, thread)

    return multiply


def _writer(tiling: Tiling):
    """Makes the macro by which each warpgroup stores its rows of a tile, a panel at a time.

    Two buffers of a panel alternate, so that a store is read while the next panel is filled, and
    the last ones while the next tile is multiplied.
    """
    panels = tiling.columns // _PANEL

    @T.macro
    def write(acc, Ds, D, bm, bn, thread):
        part = thread // _WARPGROUP
        top = bm * tiling.rows + part * _ROWS
        for p in tuple(range(panels)):
            # With an odd number of panels, a tile begins with the buffer that the last one used.
            if T.shuffle_elect(_WARPGROUP):
                T.tma_store_wait(0 if p == 0 and panels % 2 else 1)
            T.sync_threads(_STORE_BARRIER + part, _WARPGROUP)
            for i, j in T.Parallel(tiling.rows, _PANEL):
                Ds[p % 2, i, j] = acc[i, p * _PANEL + j]
            T.fence_proxy_async()
            T.sync_threads(_STORE_BARRIER + part, _WARPGROUP)
            left = bn * tiling.columns + p * _PANEL
            T.tma_copy(
                Ds[p % 2, part * _ROWS : (part + 1) * _ROWS, :],
                D[top : top + _ROWS, left : left + _PANEL],
                leader_scope_threads=_WARPGROUP,
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
    consumers = tiling.warpgroups * _WARPGROUP
    walkers = blocks // cluster
    produce = _producer(tiling, trans_a, trans_b)
    multiply = _consumer(tiling, trans_a, trans_b)
    write = _writer(tiling)
    alloc_empty = T.alloc_cluster_barrier if cluster > 1 else T.alloc_barrier
    M = T.dynamic("MU") * _UNIT if trans_a else T.dynamic("M")
    K = T.dynamic("KU") * _UNIT if trans_b or not trans_a else T.dynamic("K")
    N = T.dynamic("NU") * _UNIT

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
            threads=consumers + _WARPGROUP,
            cluster_dims=cluster,
        ) as block:
            As = T.alloc_shared((stages, BK, BM) if trans_a else (stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK) if trans_b else (stages, BK, BN), dtype)
            Ds = T.alloc_shared((2, BM, _PANEL), dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = alloc_empty([_WARPS * tiling.warpgroups * cluster] * stages)
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
                T.dec_max_nreg(_PRODUCER_REGISTERS)
                if thread < consumers + _WARP:
                    for turn in T.serial(turns):
                        _locate(turn * walkers + walker, rows, columns, tiling.group, bm, bn)
                        bm = bm * cluster + block % cluster
                        produce(A, B, As, Bs, full, empty, steps, bm, bn, slot, phase)
            else:
                T.inc_max_nreg(_CONSUMER_REGISTERS[tiling.warpgroups])
                for turn in T.serial(turns):
                    _locate(turn * walkers + walker, rows, columns, tiling.group, bm, bn)
                    bm = bm * cluster + block % cluster
                    multiply(As, Bs, acc, full, empty, steps, thread, slot, phase)
                    write(acc, Ds, D, bm, bn, thread)
                if T.shuffle_elect(_WARPGROUP):
                    T.tma_store_wait(0)
            if cluster > 1:
                T.cluster_sync()  # the others still write to this block's memory until here

    return Program(gemm, {"tl.disable_thread_storage_sync": True})
