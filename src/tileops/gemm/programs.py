"""TileLang programs of the matrix products.

All extents are run-time values; dtype, layouts and tile are compiled in. Products accumulate in
float32 and are rounded once.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import Program

_UNIT = 8  # 16-bit elements of 16 bytes: what the copy engine asks of every row pitch
_PANEL = 64  # columns of a swizzled tile that lie together, hence of one store
_ROWS = 64  # rows of a tile that one warpgroup multiplies
_WARPGROUP = 128
_PRODUCER_REGISTERS = 40
_CONSUMER_REGISTERS = {1: 240, 2: 232, 3: 160}


def _part(X, k, depth, i, extent, k_first):
    """The part of an operand that one step of one tile reads."""
    if k_first:
        return X[k : k + depth, i : i + extent]
    return X[i : i + extent, k : k + depth]


def build_gemm_pipelined(
    dtype: str,
    *,
    trans_a: bool,
    trans_b: bool,
    tile: tuple[int, int, int],
    stages: int,
    group: int,
    blocks: int,
) -> Program:
    """`D = op(A) op(B)` on Hopper: a copying warp feeds warpgroups that multiply, tile after tile.

    Tensors: `A [M, K]`, or `[K, M]` when `trans_a`; `B [K, N]`, or `[N, K]` when `trans_b`;
    `D [M, N]`; contiguous, 16-byte aligned, the inner extent of each a multiple of 8.

    A grid of at most `blocks` blocks walks the tiles. One warp copies the K steps of a tile into a
    ring of `stages` buffers; each of the `tile[0] / 64` warpgroups multiplies 64 rows, keeping one
    step in flight, and hands a buffer back as soon as its step is done. Results leave through
    shared memory in stores that overlap the next tile.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        trans_a: whether `A` is stored transposed.
        trans_b: whether `B` is stored transposed.
        tile: rows, columns and depth of a tile.
        stages: buffers of the ring.
        group: tile rows that neighbouring blocks share, so that operands meet in the L2 cache.
        blocks: largest number of blocks, one for each multiprocessor.
    """
    BM, BN, BK = tile
    warpgroups = BM // _ROWS
    consumers = warpgroups * _WARPGROUP
    panels = BN // _PANEL
    policy = T.GemmWarpPolicy.FullRow
    inner_m = trans_a
    inner_k = not trans_a or trans_b
    M = T.dynamic("MU") * _UNIT if inner_m else T.dynamic("M")
    K = T.dynamic("KU") * _UNIT if inner_k else T.dynamic("K")
    N = T.dynamic("NU") * _UNIT

    @T.macro
    def advance(slot: T.Ref, phase: T.Ref):
        slot += 1
        if slot == stages:
            slot = 0
            phase = 1 - phase

    @T.macro
    def locate(index, rows, columns, bm: T.Ref, bn: T.Ref):
        # Groups of tile rows, walked column by column.
        first = T.alloc_var("int32")
        height = T.alloc_var("int32")
        first = T.truncdiv(index, group * columns) * group
        height = T.min(group, rows - first)
        bm = index - first * columns
        bn = T.truncdiv(bm, height)
        bm = first + bm - bn * height

    @T.macro
    def produce(A, B, As, Bs, full, empty, steps, bm, bn, slot: T.Ref, phase: T.Ref):
        for k in T.serial(steps):
            T.barrier_wait(empty[slot], 1 - phase)
            T.tma_copy(
                _part(A, k * BK, BK, bm * BM, BM, trans_a), As[slot, :, :], barrier=full[slot]
            )
            T.tma_copy(
                _part(B, k * BK, BK, bn * BN, BN, not trans_b), Bs[slot, :, :], barrier=full[slot]
            )
            if T.shuffle_elect(32):
                T.barrier_arrive(full[slot])
            advance(slot, phase)

    @T.macro
    def multiply(As, Bs, acc, full, empty, steps, thread, slot: T.Ref, phase: T.Ref):
        last = T.alloc_var("int32")
        T.barrier_wait(full[slot], phase)
        T.wgmma_gemm(
            As[slot, :, :], Bs[slot, :, :], acc,
            transpose_A=trans_a, transpose_B=trans_b, policy=policy, clear_accum=True,
        )  # fmt: skip
        last = slot
        advance(slot, phase)
        for _ in T.serial(steps - 1):
            T.barrier_wait(full[slot], phase)
            T.wgmma_gemm(
                As[slot, :, :], Bs[slot, :, :], acc,
                transpose_A=trans_a, transpose_B=trans_b, policy=policy,
            )  # fmt: skip
            T.wait_wgmma(1)
            if thread % 32 == 0:
                T.barrier_arrive(empty[last])
            last = slot
            advance(slot, phase)
        T.wait_wgmma(0)
        T.warpgroup_fence_operand(acc, num_regs=BN // 2)
        if thread % 32 == 0:
            T.barrier_arrive(empty[last])

    @T.macro
    def store(acc, Ds, D, bm, bn, thread):
        part = thread // _WARPGROUP
        for p in tuple(range(panels)):
            # The buffer's last store has read it: two buffers alternate, also across tiles.
            if T.shuffle_elect(_WARPGROUP):
                T.tma_store_wait(0 if p == 0 and panels % 2 else 1)
            T.sync_threads(8 + part, _WARPGROUP)
            for i, j in T.Parallel(BM, _PANEL):
                Ds[p % 2, i, j] = acc[i, p * _PANEL + j]
            T.fence_proxy_async()
            T.sync_threads(8 + part, _WARPGROUP)
            T.tma_copy(
                Ds[p % 2, part * _ROWS : (part + 1) * _ROWS, :],
                D[
                    bm * BM + part * _ROWS : bm * BM + (part + 1) * _ROWS,
                    bn * BN + p * _PANEL : bn * BN + (p + 1) * _PANEL,
                ],
                leader_scope_threads=_WARPGROUP,
            )

    @T.prim_func
    def gemm(
        A: T.Tensor((K, M) if trans_a else (M, K), dtype),
        B: T.Tensor((N, K) if trans_b else (K, N), dtype),
        D: T.Tensor((M, N), dtype),
    ):
        rows = T.ceildiv(M, BM)
        columns = T.ceildiv(N, BN)
        with T.Kernel(T.min(rows * columns, blocks), threads=consumers + _WARPGROUP) as block:
            As = T.alloc_shared((stages, BK, BM) if trans_a else (stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK) if trans_b else (stages, BK, BN), dtype)
            Ds = T.alloc_shared((2, BM, _PANEL), dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([4 * warpgroups] * stages)
            thread = T.get_thread_binding()
            slot = T.alloc_var("int32", init=0)
            phase = T.alloc_var("int32", init=0)
            bm = T.alloc_var("int32", init=0)
            bn = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            turns = T.alloc_var("int32", init=0)
            steps = T.ceildiv(K, BK)
            turns = T.ceildiv(rows * columns - block, blocks)
            if thread >= consumers:
                T.dec_max_nreg(_PRODUCER_REGISTERS)
                if thread < consumers + 32:
                    for turn in T.serial(turns):
                        locate(turn * blocks + block, rows, columns, bm, bn)
                        produce(A, B, As, Bs, full, empty, steps, bm, bn, slot, phase)
            else:
                T.inc_max_nreg(_CONSUMER_REGISTERS[warpgroups])
                for turn in T.serial(turns):
                    locate(turn * blocks + block, rows, columns, bm, bn)
                    multiply(As, Bs, acc, full, empty, steps, thread, slot, phase)
                    store(acc, Ds, D, bm, bn, thread)
                if T.shuffle_elect(_WARPGROUP):
                    T.tma_store_wait(0)

    return Program(gemm, {"tl.disable_thread_storage_sync": True})
