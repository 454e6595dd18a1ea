"""The program of products with few rows, on Hopper's tensor cores: blocks share the depth.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import tilelang.language as T

from tileops._programs.program import Program
from tileops.gemm.programs.parts import add_parts, keep_part
from tileops.gemm.programs.ring import (
    UNIT,
    WARP,
    WARPGROUP,
    WARPS,
    Tiling,
    consumer,
    producer,
)


def build_gemm_split(dtype: str, *, tiling: Tiling, splits: int) -> Program:
    """`D = A B^T` of few rows: each of `splits` blocks multiplies a part of K, then parts add up.

    Tensors: `A [M, K]`, `B [N, K]`, with more than one part `P [splits, M, N]` in float32, and
    `D [M, N]`; contiguous, 16-byte aligned, K a multiple of 8 that has at least `splits` steps,
    none 0.

    Rows of `B` take the place of rows in the tensor cores' products, which are never fewer than
    64; those of `A` are the columns, of which a tile may have as few as 8.

    Args:
        dtype: `"float16"` or `"bfloat16"`.
        tiling: how the product is cut up, rows those of `B`, columns those of `A`.
        splits: blocks that share the depth of a tile.
    """
    BN, BM, depth, stages = tiling.rows, tiling.columns, tiling.depth, tiling.stages
    consumers = tiling.warpgroups * WARPGROUP
    threads = consumers + WARPGROUP
    produce = producer(tiling, trans_a=False, trans_b=True)
    multiply = consumer(tiling, trans_a=False, trans_b=True)
    M, N = T.dynamic("M"), T.dynamic("N")
    K = T.dynamic("KU") * UNIT

    @T.macro
    def accumulate(A, B, acc, bn, bm, part):
        """The products of one part, in the registers of the warpgroups that multiply."""
        As = T.alloc_shared((stages, BM, depth), dtype)
        Bs = T.alloc_shared((stages, BN, depth), dtype)
        full = T.alloc_barrier([1] * stages)
        empty = T.alloc_barrier([WARPS * tiling.warpgroups] * stages)
        thread = T.get_thread_binding()
        slot = T.alloc_var("int32", init=0)
        phase = T.alloc_var("int32", init=0)
        first = T.alloc_var("int32", init=0)
        steps = T.alloc_var("int32", init=0)
        first = part * T.ceildiv(K, depth) // splits
        steps = (part + 1) * T.ceildiv(K, depth) // splits - first
        if thread >= consumers:
            if thread < consumers + WARP:
                produce(B, A, Bs, As, full, empty, first, steps, bn * BN, bm * BM, slot, phase)
        else:
            multiply(Bs, As, acc, full, empty, steps, thread, slot, phase)

    @T.prim_func
    def gemm_whole(
        A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), D: T.Tensor((M, N), dtype)
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=threads) as (bn, bm):
            acc = T.alloc_fragment((BN, BM), "float32")
            accumulate(A, B, acc, bn, bm, 0)
            if T.get_thread_binding() < consumers:
                for j, i in T.Parallel(BN, BM):
                    if bm * BM + i < M and bn * BN + j < N:
                        D[bm * BM + i, bn * BN + j] = acc[j, i]

    @T.prim_func
    def gemm_split(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        P: T.Tensor((splits, M, N), "float32"),
        D: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), splits, threads=threads) as (
            bn,
            bm,
            part,
        ):
            acc = T.alloc_fragment((BN, BM), "float32")
            T.pdl_trigger()
            accumulate(A, B, acc, bn, bm, part)
            if T.get_thread_binding() < consumers:
                keep_part(acc, P, part, bn * BN, bm * BM, BN, BM, M, N)
        add_parts(P, D, splits, M, N)

    return Program(
        gemm_split if splits > 1 else gemm_whole, {"tl.disable_thread_storage_sync": True}
    )
