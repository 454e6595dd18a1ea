"""The program of products of float8 codes whose scales serve runs along the depth, on Hopper.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math

import tilelang.language as T

from tileops._programs.program import GUARDED, Program
from tileops.gemm.programs.ring import (
    CONSUMER_REGISTERS,
    PANEL,
    WARPGROUP,
    WARPS,
    Tiling,
    advance,
    producer,
    releaser,
)
from tileops.gemm.programs.tiles import walk, writer

RUN = 128
"""Codes along the depth that share a scale, and rows of `B` where a tile of codes shares one."""
CODES = 16
"""Codes of 16 bytes: what the copy engine asks of every row pitch."""
_RESULTS = 8  # 16-bit results of 16 bytes


def _scales(tiling: Tiling, scales_a: str, scales_b: str):
    """Makes the macros that fetch the scales of a step, and that add a step to sums by them.

    Where rows of `B` have scales of their own, `sb` holds one for each column of the tile, else one
    for each panel.
    """
    panels = tiling.columns // PANEL

    @T.macro
    def fetch(SA, SB, sa, sb, top, left, last_row, last_column, step):
        for i in T.Parallel(tiling.rows):
            if scales_a == "tensor":
                sa[i] = SA[0, 0]
            else:
                sa[i] = SA[T.min(top + i, last_row), step]
        if scales_b == "row_block":
            for j in T.Parallel(tiling.columns):
                sb[j] = SB[T.min(left + j, last_column), step]
        else:
            for p in T.unroll(panels):
                if scales_b == "tensor":
                    sb[p] = SB[0, 0]
                else:
                    sb[p] = SB[T.min(left + p * PANEL, last_column) // RUN, step]

    @T.macro
    def promote(part, acc, sa, sb):
        if scales_b == "row_block":
            for i, j in T.Parallel(tiling.rows, tiling.columns):
                acc[i, j] += part[i, j] * (sa[i] * sb[j])
        else:
            for p in T.unroll(panels):
                for i, j in T.Parallel(tiling.rows, PANEL):
                    acc[i, p * PANEL + j] += part[i, p * PANEL + j] * (sa[i] * sb[p])

    return fetch, promote


def _consumer(tiling: Tiling, scales_a: str, scales_b: str):
    """Makes the macro by which the warpgroups multiply a tile, each step scaled as it is added.

    The products of a step start from zero in one of two parts; while they are made, the step before
    is added from the other. The sums of the tensor cores are shorter than float32, and end with the
    step.
    """
    release = releaser(tiling)
    fetch, promote = _scales(tiling, scales_a, scales_b)

    @T.macro
    def issue(tensors, operands, one, full, place, step, slot, phase):
        """Starts the products of a step, and fetches its scales meanwhile."""
        part, sa, sb = one
        T.barrier_wait(full[slot], phase)
        T.wgmma_gemm(
            operands[0][slot, :, :],
            operands[1][slot, :, :],
            part,
            transpose_B=True,
            clear_accum=True,
            policy=T.GemmWarpPolicy.FullRow,
        )
        top, left, M, N = place
        fetch(tensors[0], tensors[1], sa, sb, top, left, M - 1, N - 1, step)

    @T.macro
    def add(one, acc, empty, slot, thread, pending):
        """Awaits all products but those of `pending` steps, and adds a step."""
        part, sa, sb = one
        T.wait_wgmma(pending)
        T.warpgroup_fence_operand(part, num_regs=tiling.columns // 2)
        release(empty, slot, thread)
        promote(part, acc, sa, sb)

    @T.macro
    def multiply(
        tensors, operands, one, other, acc, full, empty, steps, place, thread,
        slot: T.Ref, phase: T.Ref,
    ):  # fmt: skip
        last = T.alloc_var("int32")
        T.clear(acc)
        issue(tensors, operands, one, full, place, 0, slot, phase)
        last = slot
        advance(slot, phase, tiling.stages)
        for pair in T.serial((steps - 1) // 2):
            issue(tensors, operands, other, full, place, 2 * pair + 1, slot, phase)
            add(one, acc, empty, last, thread, 1)
            last = slot
            advance(slot, phase, tiling.stages)
            issue(tensors, operands, one, full, place, 2 * pair + 2, slot, phase)
            add(other, acc, empty, last, thread, 1)
            last = slot
            advance(slot, phase, tiling.stages)
        if steps % 2 == 0:
            issue(tensors, operands, other, full, place, steps - 1, slot, phase)
            add(one, acc, empty, last, thread, 1)
            add(other, acc, empty, slot, thread, 0)
            advance(slot, phase, tiling.stages)
        else:
            add(one, acc, empty, last, thread, 0)

    return multiply


def build_gemm_scaled(
    dtype: str,
    out_dtype: str,
    *,
    scales_a: str,
    scales_b: str,
    biased: bool,
    tiling: Tiling,
    blocks: int,
    batched: bool = False,
) -> Program:
    """`D = (scale_a A) (scale_b B)^T + bias`: as the pipelined product, with scales in its sums.

    Tensors: `A [M, K]`, `B [N, K]` of codes; `SA` and `SB` of scales in float32; `bias [N]`, or
    `D` again when not `biased`; `D [M, N]`; contiguous, 16-byte aligned, K a multiple of 16, N one
    of 8, none 0. `A`, `B` and `D` have one more axis before these when `batched`, whose items are
    multiplied in pairs, with one scale for each factor.

    Args:
        dtype: of the codes, `"float8_e4m3fn"`.
        out_dtype: of bias and result, 16 bits wide.
        scales_a: `"tensor"` for `SA [1, 1]`, `"row_block"` for `[M, ceil(K / 128)]`.
        scales_b: likewise by `N`, or `"tile"` for `[ceil(N / 128), ceil(K / 128)]`.
        biased: whether a bias is added.
        tiling: how the product is cut up; the depth of a step is 128.
        blocks: largest number of blocks, one for each multiprocessor.
        batched: whether there are several products.
    """
    BM, BN, BK = tiling.rows, tiling.columns, tiling.depth
    stages, cluster = tiling.stages, tiling.cluster
    consumers = tiling.warpgroups * WARPGROUP
    produce = producer(tiling, trans_a=False, trans_b=True)
    visit, feed = walk(tiling, blocks, produce, batched=batched)
    multiply = _consumer(tiling, scales_a, scales_b)
    write = writer(tiling)
    walkers = blocks // cluster
    alloc_empty = T.alloc_cluster_barrier if cluster > 1 else T.alloc_barrier
    M, N, K = T.dynamic("M"), T.dynamic("NU") * _RESULTS, T.dynamic("KU") * CODES
    batch = (T.dynamic("batch"),) if batched else ()
    runs = T.dynamic("runs")
    tiles_down = T.dynamic("tiles_down")
    shapes = {"tensor": (1, 1), "tile": (tiles_down, runs)}
    own_scales = (BN,) if scales_b == "row_block" else (BN // PANEL,)
    alloc_scales = T.alloc_fragment if scales_b == "row_block" else T.alloc_local

    @T.macro
    def add_bias(acc, bias, left):
        for i, j in T.Parallel(BM, BN):
            acc[i, j] += T.cast(bias[T.min(left + j, N - 1)], "float32")

    @T.prim_func
    def gemm_scaled(
        A: T.Tensor((*batch, M, K), dtype),
        B: T.Tensor((*batch, N, K), dtype),
        SA: T.Tensor(shapes.get(scales_a, (M, runs)), "float32"),
        SB: T.Tensor(shapes.get(scales_b, (N, runs)), "float32"),
        bias: T.Tensor((N,) if biased else (*batch, M, N), out_dtype),
        D: T.Tensor((*batch, M, N), out_dtype),
    ):
        rows = T.ceildiv(M, BM * cluster)  # of clusters, where blocks share copies
        columns = T.ceildiv(N, BN)
        tiles = math.prod(batch, start=rows * columns)
        with T.Kernel(
            T.min(tiles, walkers) * cluster,
            threads=consumers + WARPGROUP,
            cluster_dims=cluster,
        ) as block:
            As = T.alloc_shared((stages, BM, BK), dtype)
            Bs = T.alloc_shared((stages, BN, BK), dtype)
            Ds = T.alloc_shared((2, BM, PANEL), out_dtype)
            acc = T.alloc_fragment((BM, BN), "float32")
            part = T.alloc_fragment((BM, BN), "float32")
            sa = T.alloc_fragment((BM,), "float32")
            sb = alloc_scales(own_scales, "float32")
            other_part = T.alloc_fragment((BM, BN), "float32")
            other_sa = T.alloc_fragment((BM,), "float32")
            other_sb = alloc_scales(own_scales, "float32")
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
                    multiply(
                        (SA, SB), (As, Bs), (part, sa, sb), (other_part, other_sa, other_sb),
                        acc, full, empty, steps, (bm * BM, bn * BN, M, N), thread, slot, phase,
                    )  # fmt: skip
                    if biased:
                        add_bias(acc, bias, bn * BN)
                    write(acc, Ds, D, item, bm, bn, thread)
                if T.shuffle_elect(WARPGROUP):
                    T.tma_store_wait(0)
            if cluster > 1:
                T.cluster_sync()  # the others still write to this block's memory until here

    return Program(gemm_scaled, {**GUARDED, "tl.disable_thread_storage_sync": True})
